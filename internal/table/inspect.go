package table

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// A Section is a part of a table outside of the blocks.
type Section struct {
	Name           string
	Offset, Length int64
	// Sound says that the part verifies.
	Sound bool
}

// A BlockInfo describes a block.
type BlockInfo struct {
	// Entry is the offset of the block's entry in the directory, and Sums are those of
	// the checksums of its two parts.
	Entry                int64
	Sums                 [2]int64
	KeyOffset, KeyLength int64
	ValOffset, ValLength int64
	Codec                codec.ID
	// Count is the number of entries. Entries holds them if the keys verify, without
	// values if those do not verify.
	Count   int
	Entries []base.Entry
	// Err says what is wrong with the block, and ValuesErr with its values alone.
	Err, ValuesErr error
}

// Sections returns the parts outside of the blocks, as the footer places them, and
// whether they verify. There is none if the footer is lost.
func (d *Damaged) Sections() []Section {
	if d.directorySum == 0 {
		return nil
	}
	var all []Section
	add := func(name string, from, to int64, sum uint64) {
		all = append(all, Section{name, from, to - from, d.sumOf(d.read(from, to-from), from) == sum})
	}
	bad := false
	for i, at := 0, d.hashOff(); at < d.sumsOff(); i, at = i+1, at+pageSize {
		bad = bad || d.sumOf(d.read(at, min(pageSize, d.sumsOff()-at)), at) != d.sum(2*int(d.blocks)+i)
	}
	all = append(all, Section{"hash index", d.hashOff(), d.sumsOff() - d.hashOff(), !bad})
	add("sums", d.sumsOff(), d.fencesOff(), d.sumsSum)
	add("fences", d.fencesOff(), d.directoryOff(), d.fencesSum)
	add("directory", d.directoryOff(), d.delsOff(), d.directorySum)
	add("range tombstones", d.delsOff(), d.propsOff(), d.delsSum)
	add("properties", d.propsOff(), d.footerOff(), d.propsSum)
	f, err := decodeFooter(d.read(d.footerOff(), footerSize), d.size)
	return append(all, Section{"footer", d.footerOff(), footerSize, err == nil && f == d.footer})
}

// Salt returns the salt of the table.
func (d *Damaged) Salt() uint64 { return d.salt }

// Block describes block b.
func (d *Damaged) Block(b int) BlockInfo {
	e := decodeBlockEntry(d.directory[b*blockEntrySize:])
	info := BlockInfo{
		Entry: d.directoryAt(b), Sums: [2]int64{d.sumsAt(b), d.sumsAt(int(d.blocks) + b)},
		KeyOffset: e.keyOff, KeyLength: int64(e.keyLen), ValOffset: e.valOff, ValLength: int64(e.valLen),
		Codec: e.codec, Count: e.count,
	}
	d.left = d.size
	v, values, bad, err := d.load(b)
	if info.Err, info.ValuesErr = err, bad; err != nil {
		return info
	}
	for i := range v.count {
		e := base.Entry{Key: v.appendKey(nil, i), Seq: v.seq(i), Meta: v.meta(i)}
		if bad == nil {
			from, to := v.valueSpan(i)
			e.Value = values[from:to:to]
		}
		info.Entries = append(info.Entries, e)
	}
	return info
}

// sumsAt returns the offset of the i-th checksum.
func (d *Damaged) sumsAt(i int) int64 {
	if d.directorySum == 0 {
		return d.dataEnd + sumSize*int64(i) // findDirectory takes the checksums for the end
	}
	return d.sumsOff() + sumSize*int64(i)
}
