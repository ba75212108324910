package table

import "github.com/stoatdb/stoat/internal/base"

// storable reports whether an entry of kind k may be in a block. Range tombstones
// have their own section.
func storable(k base.Kind) bool { return k.Known() && k != base.KindDeleteRange }
