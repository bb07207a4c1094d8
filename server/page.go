package server

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxPageBytes ends a page early, so that it fits in gRPC's default limit of 4 MiB.
	maxPageBytes = 3 << 20
	// checkEvery is the number of rows between two checks of the context.
	checkEvery = 256
)

// page is the position of a request in a list.
type page struct {
	size  int
	after string // key of the last row of the previous page; empty at the start
	list  uint64 // hash of the list: a token is valid only for the list that it was created for
}

// newPage parses page_size and page_token. What is the name of the list and everything
// that selects its rows.
func newPage(size int32, token string, what ...string) (*page, error) {
	p := &page{size: int(size), list: hashOf(what)}
	switch {
	case size < 0:
		return nil, invalid("page_size", fmt.Sprintf("is %d: want 1 to %d, or 0 for %d", size, maxPage, defaultPage))
	case size == 0:
		p.size = defaultPage
	}
	p.size = min(p.size, maxPage)
	if token == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= 8 || binary.BigEndian.Uint64(raw) != p.list {
		return nil, invalid("page_token",
			"is not a next_page_token of this list with this filter: start again without one")
	}
	p.after = string(raw[8:])
	return p, nil
}

func hashOf(what []string) uint64 {
	h := xxhash.New()
	for _, w := range what {
		_, _ = fmt.Fprintf(h, "%d:%s", len(w), w)
	}
	return h.Sum64()
}

// token returns the token of the page after a row.
func (p *page) token(key string) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, p.list), key...))
}

// collect returns a page of the matching rows, and the token of the next page, which is
// empty if there is none. The rows start after p.after.
func collect[M proto.Message](
	ctx context.Context, p *page, rows iter.Seq2[string, M], match func(M) bool,
) ([]M, string, error) {
	var got []M
	var last string
	bytes, seen := 0, 0
	for key, m := range rows {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if !match(m) {
			continue
		}
		if len(got) == p.size || bytes > maxPageBytes {
			return got, p.token(last), nil
		}
		got, last = append(got, m), key
		bytes += proto.Size(m)
	}
	return got, "", nil
}

// keyed returns rows with their keys, at which the next page can start.
func keyed[M any](rows iter.Seq[M], key func(M) string) iter.Seq2[string, M] {
	return func(yield func(string, M) bool) {
		for m := range rows {
			if !yield(key(m), m) {
				return
			}
		}
	}
}

// single returns the only row that a filter allows, unless it was on the previous page.
func single[M any](p *page, id string, get func(string) (M, bool)) iter.Seq2[string, M] {
	return func(yield func(string, M) bool) {
		if m, ok := get(id); ok && p.after == "" {
			yield(id, m)
		}
	}
}
