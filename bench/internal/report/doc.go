// Package report turns a record into tables and charts: a Markdown table, and
// a page of HTML that needs nothing but itself.
//
// A figure is the median of a store's repeats. The best peer of a row is the
// best of the other stores in the same run, and it is the ratio to that peer
// that targets speak of: absolute figures belong to a machine and a day.
package report
