package httpjson

import (
	"context"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// pageSize is the size of the pages of a list that is read completely.
const pageSize = 1000

// Pages returns all pages of a list, or those before an error, and the error.
func Pages[Q proto.Message, R interface{ GetNextPageToken() string }](
	ctx context.Context, req Q, list func(context.Context, Q, ...grpc.CallOption) (R, error),
) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		m := req.ProtoReflect()
		fields := m.Descriptor().Fields()
		m.Set(fields.ByName("page_size"), protoreflect.ValueOfInt32(pageSize))
		for {
			resp, err := list(ctx, req)
			if !yield(resp, err) || err != nil || resp.GetNextPageToken() == "" {
				return
			}
			m.Set(fields.ByName("page_token"), protoreflect.ValueOfString(resp.GetNextPageToken()))
		}
	}
}
