// Package model runs random operations on databases with random options, and on a
// sorted map with history beside them, and demands the same answers. Other campaigns
// use its runs to make databases whose content they know.
package model
