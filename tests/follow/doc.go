// Package follow has the campaign of followers: databases that follow a writer through
// restarts, kills and power cuts, and show a state that the writer had.
package follow
