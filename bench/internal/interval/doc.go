// Package interval computes confidence intervals of few and noisy samples. It
// knows nothing of stores.
package interval
