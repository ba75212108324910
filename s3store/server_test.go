//go:build unix

package s3store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The server of these tests is the Versity S3 Gateway with its back end for directories. It
// is written in Go, so the go command builds it of its module. It is no dependency of this
// module. It needs a POSIX file system.
const (
	gateway        = "github.com/versity/versitygw/cmd/versitygw"
	gatewayVersion = "v1.8.0"
	accessKey      = "stoat-test"
	secretKey      = "stoat-test-secret"

	// buildMax and startMax bound the time for building and starting it on a busy machine.
	buildMax = 20 * time.Minute
	startMax = time.Minute
)

// buildGateway returns the path of the server. It builds it once for each version.
var buildGateway = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "stoat-s3store-test", gatewayVersion)
	name := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildMax)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "install", "-ldflags=-s -w", gateway+"@"+gatewayVersion)
	build.Dir = os.TempDir()
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s@%s: %w\n%s", gateway, gatewayVersion, err, out)
	}
	return name, nil
})

// offline reports whether the go command failed because it reached no module proxy.
func offline(err error) bool {
	text := err.Error()
	for _, sign := range []string{"dial tcp", "no such host", "module lookup disabled", "connection refused", "i/o timeout"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return errors.Is(err, exec.ErrNotFound)
}

// newServer starts a server with a bucket, and returns a client. The server ends with the
// test. Without a network to build the server from, it skips the test.
func newServer(t *testing.T) (client *minio.Client, bucket string) {
	t.Helper()
	name, err := buildGateway()
	if err != nil && offline(err) {
		t.Skipf("there is no network to build an S3 server from: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	server := exec.Command(name, "--port", address, "--access", accessKey, "--secret", secretKey, "--quiet",
		"posix", "--sidecar", t.TempDir(), t.TempDir())
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		_ = server.Process.Kill() // Wait says whether it has ended
		<-ended
	})
	client, err = minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	bucket = "backups"
	for deadline := time.Now().Add(startMax); ; {
		err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{})
		if err == nil {
			return client, bucket
		}
		select {
		case early := <-ended:
			ended <- early
			t.Fatalf("the server has ended: %v\n%s", early, log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v", err)
		}
	}
}

// freeAddress returns an address of this machine on which no server listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // the server listens there next
	return l.Addr().String()
}
