package s3store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/s3store"
)

// A nightly backup, of which the newest 30 stay.
func Example() {
	ctx := context.Background()
	client, err := minio.New("s3.example.com", &minio.Options{
		Creds:  credentials.NewEnvAWS(), // AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
		Secure: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	db, err := stoat.Open("/data/shop", nil)
	if err != nil {
		log.Fatal(err)
	}
	store := s3store.New(client, "my-backups", "shop")
	report, err := filebackup.Backup(ctx, db, store, filebackup.Options{Temp: "/data/shop.backup"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("backup %s copied %d bytes\n", report.ID, report.CopiedBytes)
	if _, err := filebackup.Prune(ctx, store, 30); err != nil {
		log.Fatal(err)
	}
}
