package page

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/server/internal/request"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxPageBytes ends a page early, so that it fits in gRPC's default limit of 4 MiB.
	maxPageBytes = 3 << 20
	// checkEvery is the number of rows between two checks of the context.
	checkEvery = 256
)

// Position is the position of a page in a list.
type Position struct {
	After string // key of the last row of the previous page; empty at the start
	size  int
	list  uint64 // hash of the list: a token is valid only for the list that it was created for
}

// Parse returns the position for a page_size and a page_token. The list is its name, and
// everything that selects its rows.
func Parse(size int32, token string, list ...string) (*Position, error) {
	p := &Position{size: int(size), list: hashOf(list)}
	switch {
	case size < 0:
		return nil, request.Invalid("page_size", fmt.Sprintf("is %d: want 1 to %d, or 0 for %d", size, maxPage, defaultPage))
	case size == 0:
		p.size = defaultPage
	}
	p.size = min(p.size, maxPage)
	if token == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= 8 || binary.BigEndian.Uint64(raw) != p.list {
		return nil, request.Invalid("page_token",
			"is not a next_page_token of this list with this filter: start again without one")
	}
	p.After = string(raw[8:])
	return p, nil
}

// Request is a request for a page.
type Request interface {
	GetPageSize() int32
	GetPageToken() string
}

// Open returns the position of the requested page of a list (see Parse), and a view to read it
// from.
func Open[V any](
	ctx context.Context, view func(context.Context) (V, error), r Request, list ...string,
) (p *Position, v V, err error) {
	if p, err = Parse(r.GetPageSize(), r.GetPageToken(), list...); err == nil {
		v, err = view(ctx)
	}
	return p, v, err
}

// hashOf returns the hash of a list.
func hashOf(list []string) uint64 {
	h := xxhash.New()
	for _, w := range list {
		_, _ = fmt.Fprintf(h, "%d:%s", len(w), w)
	}
	return h.Sum64()
}

// token returns the token of the page after a row.
func (p *Position) token(key string) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, p.list), key...))
}

// Sequence returns the key of the last row of the previous page as a number, and 0 at the
// start.
func (p *Position) Sequence() (uint64, error) {
	if p.After == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(p.After, 10, 64)
	if err != nil {
		return 0, request.Invalid("page_token", "is damaged: start again without one")
	}
	return n, nil
}

// Collect returns a page of the matching rows, and the token of the next page, which is
// empty if there is none. The rows start after p.After. If match is nil, every row
// matches.
func Collect[M proto.Message](
	ctx context.Context, p *Position, rows iter.Seq2[string, M], match func(M) bool,
) ([]M, string, error) {
	var got []M
	var last string
	bytes, seen := 0, 0
	for key, m := range rows {
		if seen++; seen%checkEvery == 0 && ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if match != nil && !match(m) {
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

// Keyed returns rows with their keys, at which the next page can start.
func Keyed[M any](rows iter.Seq[M], key func(M) string) iter.Seq2[string, M] {
	return func(yield func(string, M) bool) {
		for m := range rows {
			if !yield(key(m), m) {
				return
			}
		}
	}
}

// Single returns the only row that a filter allows, unless it was on the previous page.
func Single[M any](p *Position, id string, get func(string) (M, bool)) iter.Seq2[string, M] {
	return func(yield func(string, M) bool) {
		if m, ok := get(id); ok && p.After == "" {
			yield(id, m)
		}
	}
}
