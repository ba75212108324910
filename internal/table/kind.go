package table

import "github.com/stoatdb/stoat/internal/base"

// KindPointer is a KindSet whose value is stored elsewhere: the entry's value
// is the pointer that leads to it. The table does not look into pointers.
const KindPointer base.Kind = 3

// known reports whether k may be in a table.
func known(k base.Kind) bool { return k.Known() || k == KindPointer }
