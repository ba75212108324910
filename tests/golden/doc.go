// Package golden opens databases of every format version that was ever released.
package golden
