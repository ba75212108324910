// Package report turns a record into a full report in Markdown, a summary for a
// document, and a self-contained HTML page with charts.
//
// A figure is the median of a store's repeats, and a ratio the median of the ratios of the
// repeats. The best peer of a row is the best of the other stores in the same run. Most
// targets are ratios to that peer, because absolute figures depend on the machine and the day.
package report
