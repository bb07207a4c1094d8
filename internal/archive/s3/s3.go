// Package s3 is an archive in a bucket of S3 or of what speaks like it: MinIO, Ceph, Garage, a
// cloud's own.
//
// It must not make buckets or change their rules: who owns the bucket does.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/holdfast-metal/holdfast/internal/archive"
)

// Config says where the bucket is.
type Config struct {
	Endpoint string // host or host:port
	Bucket   string
	Prefix   string // of all names, such as prod/holdfast; may be empty
	Region   string // may be empty: then it is asked for
	Plain    bool   // HTTP: for a server on this host
	// CredentialsFile has aws_access_key_id and aws_secret_access_key, as AWS's tools read them;
	// empty: nobody in particular asks.
	CredentialsFile string
}

// maxObject bounds what is read: an object is much smaller.
const maxObject = 256 << 20

// Store is an archive in a bucket.
type Store struct {
	cfg    Config
	client *minio.Client
}

// New returns a Store. It asks nothing of the server.
func New(cfg Config) (*Store, error) {
	who := credentials.NewStaticV4("", "", "")
	if cfg.CredentialsFile != "" {
		who = credentials.NewFileAWSCredentials(cfg.CredentialsFile, "default")
	}
	c, err := minio.New(cfg.Endpoint, &minio.Options{Creds: who, Secure: !cfg.Plain, Region: cfg.Region, MaxRetries: 3})
	if err != nil {
		return nil, fmt.Errorf("use the S3 server %s: %w", cfg.Endpoint, err)
	}
	return &Store{cfg: cfg, client: c}, nil
}

// key returns the object's key in the bucket.
func (s *Store) key(name string) (string, error) {
	if err := archive.CheckName(name); err != nil {
		return "", err
	}
	if s.cfg.Prefix == "" {
		return name, nil
	}
	return path.Clean(s.cfg.Prefix) + "/" + name, nil
}

// Put writes an object.
func (s *Store) Put(ctx context.Context, name string, data []byte) error {
	key, err := s.key(name)
	if err != nil {
		return err
	}
	if _, err := s.client.PutObject(ctx, s.cfg.Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{ContentType: "application/zstd"}); err != nil {
		return fmt.Errorf("write %s to bucket %s: %w", key, s.cfg.Bucket, err)
	}
	return nil
}

// Get reads an object; archive.ErrNotFound when there is none.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	key, err := s.key(name)
	if err != nil {
		return nil, err
	}
	o, err := s.client.GetObject(ctx, s.cfg.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s in bucket %s: %w", key, s.cfg.Bucket, err)
	}
	data, err := io.ReadAll(io.LimitReader(o, maxObject))
	if err := errors.Join(err, o.Close()); err != nil {
		var answer minio.ErrorResponse
		if errors.As(err, &answer) && answer.Code == minio.NoSuchKey {
			err = archive.ErrNotFound
		}
		return nil, fmt.Errorf("read %s in bucket %s: %w", key, s.cfg.Bucket, err)
	}
	return data, nil
}

// Remove removes all objects of a folder. One that is gone is fine.
func (s *Store) Remove(ctx context.Context, folder string) error {
	key, err := s.key(folder)
	if err != nil {
		return err
	}
	for o := range s.client.ListObjects(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: key, Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list %s in bucket %s: %w", key, s.cfg.Bucket, o.Err)
		}
		if err := s.client.RemoveObject(ctx, s.cfg.Bucket, o.Key, minio.RemoveObjectOptions{}); err != nil {
			return fmt.Errorf("remove %s from bucket %s: %w", o.Key, s.cfg.Bucket, err)
		}
	}
	return nil
}
