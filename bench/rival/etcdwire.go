package rival

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of etcd's API v3 that the benchmarks use, by their field numbers (etcd's
// documentation, api_reference_v3). Encoding them here avoids a dependency on etcd.
const (
	etcdTxn    = "/etcdserverpb.KV/Txn"
	etcdRange  = "/etcdserverpb.KV/Range"
	etcdStatus = "/etcdserverpb.Maintenance/Status"
)

// asBytes is a gRPC codec for encoded messages.
type asBytes struct{}

// Name returns the name of protobuf's encoding.
func (asBytes) Name() string { return "proto" }

// Marshal returns the bytes that v points to.
func (asBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil } //nolint:forcetypeassert // etcdCall passes no other type

// Unmarshal copies data to the bytes that v points to.
func (asBytes) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...) //nolint:forcetypeassert // the same
	return nil
}

// etcdCall makes a call and returns the fields of the response, numbers or bytes, by field
// number. The last value of a repeated field counts.
func etcdCall(
	ctx context.Context, conn grpc.ClientConnInterface, method string, request []byte,
) (map[protowire.Number]etcdField, error) {
	var answer []byte
	if err := conn.Invoke(ctx, method, &request, &answer, grpc.ForceCodec(asBytes{})); err != nil {
		return nil, err
	}
	return etcdFields(answer)
}

type etcdField struct {
	number uint64
	bytes  []byte
}

func etcdFields(b []byte) (map[protowire.Number]etcdField, error) {
	fields := map[protowire.Number]etcdField{}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, fmt.Errorf("read etcd's answer: %w", protowire.ParseError(n))
		}
		b = b[n:]
		var f etcdField
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return nil, fmt.Errorf("read etcd's answer: %w", protowire.ParseError(n))
		}
		b = b[n:]
		fields[num] = f
	}
	return fields, nil
}

func etcdBytes(b []byte, num protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

// EtcdIfNew returns a transaction that writes keys if none of the keys in absent exists.
func EtcdIfNew(absent []string, puts []string, value []byte) []byte {
	var txn []byte
	for _, key := range absent {
		var c []byte
		c = protowire.AppendVarint(protowire.AppendTag(c, 2, protowire.VarintType), 1) // target: create revision
		c = etcdBytes(c, 3, []byte(key))
		c = protowire.AppendVarint(protowire.AppendTag(c, 5, protowire.VarintType), 0) // is 0
		txn = etcdBytes(txn, 1, c)
	}
	for _, key := range puts {
		txn = etcdBytes(txn, 2, etcdBytes(nil, 2, etcdBytes(etcdBytes(nil, 1, []byte(key)), 2, value)))
	}
	return txn
}

// EtcdCommit commits a transaction. It returns an error if its condition was false.
func EtcdCommit(ctx context.Context, conn grpc.ClientConnInterface, txn []byte) error {
	fields, err := etcdCall(ctx, conn, etcdTxn, txn)
	if err == nil && fields[2].number != 1 {
		err = errors.New("commit to etcd: a key exists already")
	}
	return err
}

// EtcdGet makes a linearizable read of one key.
func EtcdGet(ctx context.Context, conn grpc.ClientConnInterface, key string) error {
	fields, err := etcdCall(ctx, conn, etcdRange, etcdBytes(nil, 1, []byte(key)))
	if err == nil && fields[4].number != 1 {
		err = fmt.Errorf("read key %s of etcd: not found", key)
	}
	return err
}

// etcdLeads reports whether a member leads, and returns its version.
func etcdLeads(ctx context.Context, conn grpc.ClientConnInterface) (leads bool, version string, err error) {
	fields, err := etcdCall(ctx, conn, etcdStatus, nil)
	if err != nil {
		return false, "", err
	}
	header, err := etcdFields(fields[1].bytes)
	if err != nil {
		return false, "", err
	}
	leader := fields[4].number
	return leader != 0 && leader == header[2].number, string(fields[2].bytes), nil
}
