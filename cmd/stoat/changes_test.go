package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

func TestChanges_PrintsCommitsOfALiveDatabase(t *testing.T) {
	t.Parallel()
	dir := create(t)
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := db.Keyspace("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range []func(tx stoat.Txn) error{
		func(tx stoat.Txn) error { return tx.Set([]byte("ann"), []byte("1\t")) },
		func(tx stoat.Txn) error { return tx.In(other).Set([]byte("bob"), []byte("2")) },
		func(tx stoat.Txn) error { return tx.DeleteRange([]byte("a"), []byte("b")) },
		func(tx stoat.Txn) error { return tx.Delete([]byte("ann")) },
	} {
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
	}
	first := "1\tSet\t(default)\tann\t1\\t\n"
	second := "2\tSet\t\"other\"\tbob\t2\n"
	third := "3\tDeleteRange\t(default)\ta\tb\n"
	fourth := "4\tDelete\t(default)\tann\n"
	expect(t, first+second+third+fourth, "changes", dir)
	expect(t, third+fourth, "changes", "-after", "2", dir)
	expect(t, "", "changes", "-after", "4", dir)
	expect(t, second, "changes", "-keyspace", "other", dir)
	expect(t, first+third+fourth, "changes", "-keyspace", "", dir)
	expect(t, second, "changes", "-prefix", "bo", dir)
	expect(t, "1\tSet\t(default)\t616e6e\t3109\n3\tDeleteRange\t(default)\t61\t62\n4\tDelete\t(default)\t616e6e\n", "changes", "-hex", "-prefix", "616e", "-keyspace", "", "-after", "0", dir)
	fail(t, exitError, "the newest version is 4", "changes", "-after", "5", dir)
	fail(t, exitUsage, "not both", "changes", "-hex", "-json", dir)
	fail(t, exitError, `there is no keyspace "absent"`, "changes", "-keyspace", "absent", dir)

	lines := strings.Split(strings.TrimSpace(succeed(t, "changes", "-json", dir)), "\n")
	var got struct {
		Version    uint64
		Kind       string
		Keyspace   string
		Key, Value []byte
	}
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil || len(lines) != 4 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if text := fmt.Sprintf("%+v", got); text != "{Version:2 Kind:Set Keyspace:other Key:[98 111 98] Value:[50]}" {
		t.Errorf("the object is %s", text)
	}

	r, w := io.Pipe()
	printed := make(chan string)
	go func() {
		out := bufio.NewScanner(r)
		for out.Scan() {
			printed <- out.Text()
		}
	}()
	go run(t.Context(), []string{"changes", "-wait", "-after", "3", dir}, console{strings.NewReader(""), w, io.Discard})
	if line := <-printed; line+"\n" != fourth {
		t.Errorf("-wait begins with %q", line)
	}
	if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("late"), []byte("3")) }); err != nil {
		t.Fatal(err)
	}
	if line := <-printed; line != "5\tSet\t(default)\tlate\t3" {
		t.Errorf("-wait goes on with %q", line)
	}
	if err := db.DropKeyspace("other"); err != nil {
		t.Fatal(err)
	}
	// The database soon forgets the name.
	if got := succeed(t, "changes", "-after", "5", dir); got != "6\tDropKeyspace\t\"other\"\n" && got != "6\tDropKeyspace\t(number 1)\n" {
		t.Errorf("the drop of a keyspace is %q", got)
	}
}

func TestChanges_PrintsTimesAfterTheYear9999(t *testing.T) {
	t.Parallel()
	dir := create(t)
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte("ann"), nil, stoat.ExpiresAt(time.Unix(math.MaxInt64/1000, 0)))
	}); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "changes", dir); !strings.HasSuffix(out, "\tuntil 292278994-08-17T07:12:55Z\n") {
		t.Errorf("the line is %q", out)
	}
	if out := succeed(t, "changes", "-json", dir); !strings.Contains(out, `"expires_at":"292278994-08-17T07:12:55Z"`) {
		t.Errorf("the object is %s", out)
	}
}

func TestConfigure_ChangesStoredSettings(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "configure", "-versions", "7", "-ttl", "48h", "-compression", "none", "-value-threshold", "2Ki",
		"-large-value-threshold", "1Mi", "-change-retention", "5M", "-merge-function", "sum", "-filter", "old", dir)
	expect(t, "", "keyspaces", "-create", "prices", "-timestamps", dir)
	expect(t, "", "configure", "-keyspace", "prices", "-versions", "3", "-discard-below", "20", dir)
	all := strings.Join(strings.Fields(succeed(t, "keyspaces", dir)), " ")
	for _, want := range []string{
		"(default) 7 none from 2048 bytes from 1048576 bytes 48h0m0s \"sum\" \"old\" no",
		`"prices" 3 `, "change retention of all: 5000000 bytes of the log",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the settings are %s, want %q", all, want)
		}
	}
	fail(t, exitError, "discarded", "get", "-keyspace", "prices", "-at", "10", dir, "k")
	expect(t, "", "configure", "-ttl", "none", "-change-retention", "0", "-merge-function", "none", "-filter", "none", dir)
	all = strings.Join(strings.Fields(succeed(t, "keyspaces", dir)), " ")
	if !strings.Contains(all, "(default) 7 none from 2048 bytes from 1048576 bytes forever none none no") || !strings.Contains(all, "of all: 0 bytes") {
		t.Errorf("the settings are %s", all)
	}
	fail(t, exitUsage, "needs a flag that names a setting", "configure", dir)
	fail(t, exitUsage, "-versions is empty or 0, which changes nothing", "configure", "-versions", "0", dir)
	fail(t, exitUsage, "leave out -keyspace", "configure", "-keyspace", "prices", "-change-retention", "5", dir)
	fail(t, exitUsage, "needs -keyspace", "configure", "-discard-below", "5", dir)
	fail(t, exitUsage, "want none, fast or small", "configure", "-compression", "best", dir)
	fail(t, exitUsage, "want a positive time", "configure", "-ttl", "-1h", dir)
	fail(t, exitError, `there is no keyspace "absent"`, "configure", "-keyspace", "absent", "-versions", "2", dir)
	if list := succeed(t, "keyspaces", dir); strings.Contains(list, "absent") {
		t.Errorf("the command has made a keyspace: %s", list)
	}
}

func TestConfigure_AWrongDiscardChangesNoSetting(t *testing.T) {
	t.Parallel()
	dir := create(t)
	succeed(t, "keyspaces", "-create", "plain", dir)
	before := succeed(t, "keyspaces", dir)
	fail(t, exitError, `the keyspace "plain" has no timestamps`, "configure", "-keyspace", "plain", "-versions", "5", "-discard-below", "7", dir)
	expect(t, before, "keyspaces", dir)
}

func TestEstimate_PrintsSizesAndSplits(t *testing.T) {
	t.Parallel()
	dir := create(t)
	var lines strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&lines, "key%05d\t%0100d\n", i, i)
	}
	if _, errOut, code := stoatCommand(t.Context(), lines.String(), "load", dir, "-"); code != exitOK {
		t.Fatal(errOut)
	}
	var keys, bytes int
	if _, err := fmt.Sscanf(succeed(t, "estimate", "-from", "key01000", "-to", "key02000", dir), "about %d keys, %d bytes\n", &keys, &bytes); err != nil {
		t.Fatal(err)
	}
	if keys < 800 || keys > 1200 || bytes < 80_000 || bytes > 150_000 {
		t.Errorf("about %d keys, %d bytes", keys, bytes)
	}
	splits := strings.Fields(succeed(t, "estimate", "-split", "4", dir))
	if len(splits) != 3 || splits[0] < "key00800" || splits[0] > "key01200" || splits[2] < "key02800" || splits[2] > "key03200" {
		t.Errorf("the range is split at %q", splits)
	}
	expect(t, "", "estimate", "-split", "1", dir)
	fail(t, exitUsage, "want at least 1", "estimate", "-split", "0", dir)
	fail(t, exitError, "there is no keyspace", "estimate", "-keyspace", "absent", dir)
}

func TestRenew_ChangesTheTimeOfExpiry(t *testing.T) {
	t.Parallel()
	dir := create(t)
	expect(t, "", "set", "-ttl", "1h", dir, "ann", "1")
	expect(t, "", "set", dir, "bob", "2")
	expect(t, "", "renew", "-ttl", "5h", dir, "ann", "bob")
	changes := succeed(t, "changes", "-after", "2", dir)
	if strings.Count(changes, "Renew\t(default)\t") != 2 || strings.Count(changes, "until ") != 2 {
		t.Errorf("the changes are %s", changes)
	}
	expect(t, "", "renew", "-never", dir, "ann")
	expect(t, "4\tRenew\t(default)\tann\n", "changes", "-after", "3", dir)
	fail(t, exitError, "there is no key carl", "renew", "-never", dir, "bob", "carl")
	expect(t, "", "changes", "-after", "4", dir)
	fail(t, exitUsage, "either -ttl", "renew", dir, "ann")
	fail(t, exitUsage, "either -ttl", "renew", "-never", "-ttl", "1h", dir, "ann")
}
