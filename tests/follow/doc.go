// Package follow has the campaign of followers. A follower is a database that follows a
// writer through restarts, kills and power cuts, and shows a state that the writer had.
package follow
