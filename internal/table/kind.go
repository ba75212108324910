package table

import "github.com/stoatdb/stoat/internal/base"

// storable reports whether an entry of kind k may be in a block. Range
// deletions have a section of their own.
func storable(k base.Kind) bool { return k.Known() && k != base.KindDeleteRange }
