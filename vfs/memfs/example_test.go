package memfs_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Shows that a name is lost in a power cut unless its directory was synced.
func Example() {
	disk := memfs.New()
	rng := rand.New(rand.NewPCG(1, 1))
	f, err := disk.Create("/a", vfs.CatTable)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		log.Fatal(err)
	}
	names, _ := disk.Crash(memfs.KeepNone, rng).List("/")
	fmt.Println("after Sync:", names)

	if err := disk.SyncDir("/"); err != nil {
		log.Fatal(err)
	}
	names, _ = disk.Crash(memfs.KeepNone, rng).List("/")
	fmt.Println("after SyncDir:", names)
	// Output:
	// after Sync: []
	// after SyncDir: [a]
}

// Loses each unsynced operation in turn.
func ExampleFS_CrashKeeping() {
	disk := memfs.New()
	f, err := disk.Create("/a", vfs.CatTable)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("hello"), 0); err != nil {
		log.Fatal(err)
	}
	for lost, op := range disk.Unsynced() {
		after := disk.CrashKeeping(func(i int) bool { return i != lost })
		info, err := after.Stat("/a")
		fmt.Printf("without %s: exists %t, %d bytes\n", op.Kind, err == nil, info.Size)
	}
	// Output:
	// without create: exists false, 0 bytes
	// without write: exists true, 0 bytes
}
