package memfs

import (
	"bytes"
	"strings"
	"testing"
)

func newTestContent(text string) content {
	c := newContent()
	c.writeAt([]byte(text), 0)
	return c
}

func (c *content) all() string {
	b := make([]byte, c.size)
	c.readAt(b, 0)
	return string(b)
}

func TestContent_ForksDoNotSeeEachOthersWrites(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3*chunkBytes)
	a := newTestContent(text)
	b := a.fork()
	c := b.fork()
	a.writeAt([]byte("a"), 0)
	b.writeAt([]byte("b"), chunkBytes)
	c.setSize(10)
	c.setSize(int64(len(text)))
	wantContents(t, a.all(), "a"+text[1:])
	wantContents(t, b.all(), text[:chunkBytes]+"b"+text[chunkBytes+1:])
	wantContents(t, c.all(), text[:10]+string(make([]byte, len(text)-10)))
}

func TestContent_CopiedRangesDoNotFollowTheirSource(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 4*pageSize)
	src, dst := newTestContent(text), newTestContent(strings.Repeat("y", 4*pageSize))
	dst.copyRange(&src, pageSize-10, 2*pageSize+20)
	want := text[:pageSize-10]
	want = strings.Repeat("y", len(want)) + text[:2*pageSize+20] + strings.Repeat("y", pageSize-10)
	wantContents(t, dst.all(), want)
	src.writeAt(bytes.Repeat([]byte("s"), 4*pageSize), 0)
	wantContents(t, dst.all(), want)
	again := newTestContent(text)
	dst.copyRange(&again, 0, 4*pageSize)
	dst.writeAt(bytes.Repeat([]byte("d"), 4*pageSize), 0)
	wantContents(t, again.all(), text)
}

func TestContent_CopiedHolesAreZeros(t *testing.T) {
	t.Parallel()
	src, dst := newContent(), newTestContent(strings.Repeat("y", 3*pageSize))
	src.setSize(3 * pageSize)
	dst.copyRange(&src, 100, 2*pageSize)
	wantContents(t, dst.all(), strings.Repeat("y", 100)+string(make([]byte, 2*pageSize))+strings.Repeat("y", pageSize-100))
}

func TestContent_ContiguousBytesStay(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3*pageSize)
	c := newTestContent(text)
	c.writeAt([]byte("x"), 0) // the content then owns the page
	b := c.contiguous(2*pageSize + 5)
	c.writeAt(bytes.Repeat([]byte("w"), 3*pageSize), 0)
	wantContents(t, string(b), text[:2*pageSize+5])
	wantContents(t, c.all(), strings.Repeat("w", 3*pageSize))
}

func TestContent_PagesAreCounted(t *testing.T) {
	t.Parallel()
	c := newContent()
	steps := []struct {
		do   func()
		want int64
	}{
		{func() { c.writeAt([]byte("x"), 0) }, 1},
		{func() { c.writeAt([]byte("xx"), pageSize-1) }, 2},
		{func() { c.reserve(0, 10*pageSize) }, 10},
		{func() { c.writeAt(make([]byte, 3*pageSize), 5*pageSize) }, 10},
		{func() { c.setSize(100 * pageSize) }, 10},
		{func() { c.writeAt([]byte("x"), 99*pageSize) }, 11},
		{func() { c.setSize(5*pageSize + 1) }, 6},
		{func() { c.setSize(5 * pageSize) }, 5},
		{func() { c.setSize(1) }, 1},
		{func() { c.setSize(0) }, 0},
	}
	for i, step := range steps {
		step.do()
		if c.pages != step.want {
			t.Fatalf("step %d: %d pages are counted, want %d", i, c.pages, step.want)
		}
		if got := c.missing(0, 200*pageSize); got != 200-step.want {
			t.Fatalf("step %d: %d pages are missing, want %d", i, got, 200-step.want)
		}
	}
}
