// Package s3 is an archive in a bucket of S3 or a compatible store: MinIO, Ceph, Garage, or
// a cloud's own.
//
// It must not create buckets or change their policies. That is up to the bucket's owner.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/holdfast-metal/holdfast/internal/archive"
)

// Config locates the bucket.
type Config struct {
	Endpoint string // host or host:port
	Bucket   string
	Prefix   string // prefix of all names, such as prod/holdfast; may be empty
	Region   string // if empty, the server is asked for it
	Plain    bool   // HTTP without TLS, for a server on this host
	// CredentialsFile has aws_access_key_id and aws_secret_access_key in the format of
	// AWS's tools. If it is empty, requests are anonymous.
	CredentialsFile string
	// Transport connects to the store; default that of minio.
	Transport *http.Transport
}

// maxObject bounds the size of an object that is read. Real objects are much smaller.
const maxObject = 256 << 20

// Store is an archive in a bucket.
type Store struct {
	cfg    Config
	client *minio.Client
}

// New returns a Store. It does not contact the server.
func New(cfg Config) (*Store, error) {
	who := credentials.NewStaticV4("", "", "")
	if cfg.CredentialsFile != "" {
		who = credentials.NewFileAWSCredentials(cfg.CredentialsFile, "default")
	}
	opts := &minio.Options{Creds: who, Secure: !cfg.Plain, Region: cfg.Region, MaxRetries: 3}
	if cfg.Transport != nil {
		t := cfg.Transport.Clone()
		t.DisableCompression = true // an object is what its sum is of
		opts.Transport = t
	}
	c, err := minio.New(cfg.Endpoint, opts)
	if err != nil {
		return nil, fmt.Errorf("configure S3 server %s: %w", cfg.Endpoint, err)
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
	opts := minio.PutObjectOptions{ContentType: "application/zstd"}
	if _, err := s.client.PutObject(ctx, s.cfg.Bucket, key, bytes.NewReader(data), int64(len(data)), opts); err != nil {
		return fmt.Errorf("write %s to bucket %s: %w", key, s.cfg.Bucket, err)
	}
	return nil
}

// Get returns an object, or archive.ErrNotFound.
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
		if answer, ok := errors.AsType[minio.ErrorResponse](err); ok && answer.Code == minio.NoSuchKey {
			err = archive.ErrNotFound
		}
		return nil, fmt.Errorf("read %s in bucket %s: %w", key, s.cfg.Bucket, err)
	}
	return data, nil
}

// Remove removes all objects of a folder. It succeeds if there are none.
func (s *Store) Remove(ctx context.Context, folder string) error {
	key, err := s.key(folder)
	if err != nil {
		return err
	}
	for o := range s.client.ListObjectsIter(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: key, Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list %s in bucket %s: %w", key, s.cfg.Bucket, o.Err)
		}
		if err := s.client.RemoveObject(ctx, s.cfg.Bucket, o.Key, minio.RemoveObjectOptions{}); err != nil {
			return fmt.Errorf("remove %s from bucket %s: %w", o.Key, s.cfg.Bucket, err)
		}
	}
	return nil
}
