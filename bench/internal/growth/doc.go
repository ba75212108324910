// Package growth projects how a figure of a store grows with the number of keys,
// from figures at a few sizes. It knows nothing of stores.
package growth
