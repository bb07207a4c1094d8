package rival

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

// The few messages of etcd's API v3 that are measured with, by their field numbers (etcd's
// documentation, api_reference_v3). They are written here so that nothing of etcd is linked into
// peers.
const (
	etcdTxn    = "/etcdserverpb.KV/Txn"
	etcdRange  = "/etcdserverpb.KV/Range"
	etcdStatus = "/etcdserverpb.Maintenance/Status"
)

// asBytes is a gRPC codec for messages that are bytes already.
type asBytes struct{}

// Name is that of the encoding, which is protobuf's.
func (asBytes) Name() string { return "proto" }

// Marshal returns the bytes that v points to.
func (asBytes) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil } //nolint:forcetypeassert // etcdCall gives nothing else

// Unmarshal keeps them.
func (asBytes) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...) //nolint:forcetypeassert // the same
	return nil
}

// etcdCall asks and gives the answer's fields: the last one of each number, a number or bytes.
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

// EtcdIfNew is a transaction that writes keys if none of those in absent is there.
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

// EtcdCommit makes such a transaction. One that was not carried out is an error.
func EtcdCommit(ctx context.Context, conn grpc.ClientConnInterface, txn []byte) error {
	fields, err := etcdCall(ctx, conn, etcdTxn, txn)
	if err == nil && fields[2].number != 1 {
		err = errors.New("etcd: the transaction was not carried out: a key is there already")
	}
	return err
}

// EtcdGet reads one key, linearizably.
func EtcdGet(ctx context.Context, conn grpc.ClientConnInterface, key string) error {
	fields, err := etcdCall(ctx, conn, etcdRange, etcdBytes(nil, 1, []byte(key)))
	if err == nil && fields[4].number != 1 {
		err = fmt.Errorf("etcd: key %s is not there", key)
	}
	return err
}

// etcdLeads reports whether a member leads, and which version it is.
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
