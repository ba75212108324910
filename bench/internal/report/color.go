package report

import "strings"

// storeColors gives every store one color for all charts. A variant shares the
// hue of its plain store.
var storeColors = map[string]string{
	"stoat":          "#d6336c",
	"stoat-fast":     "#f08fb0",
	"badger":         "#e8890c",
	"badger-wisckey": "#f5b556",
	"pebble":         "#2f6fde",
	"pebble-blob":    "#7ea6ee",
	"bbolt":          "#2b8a3e",
	"lmdb":           "#74b816",
	"rocksdb":        "#7048e8",
	"rocksdb-blob":   "#a791f2",
	"goleveldb":      "#868e96",
}

// colorOf returns a store's color; an unknown store is grey.
func colorOf(store string) string {
	if c, ok := storeColors[store]; ok {
		return c
	}
	return "#adb5bd"
}

// isOurs returns whether a store is stoat or a variant of it, and so no peer.
func isOurs(store string) bool { return store == ours || strings.HasPrefix(store, ours+"-") }

// isVariant returns whether a store is another one with other options.
func isVariant(store string) bool { return strings.Contains(store, "-") }
