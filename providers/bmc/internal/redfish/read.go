package redfish

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// resource is a resource of the service. Its properties are read one by one, and an odd one costs
// itself only (package loose).
type resource struct {
	loose.Object
	path string // to read it again
	etag string
}

// read reads a resource. An answer that is no JSON object is an error, but not a silent one. A path
// with a fragment, such as /redfish/v1/Chassis/1/Thermal#/Fans/0, is that part of the resource.
func (c *Client) read(ctx context.Context, path string) (*resource, error) {
	whole, inside, part := strings.Cut(path, "#")
	a, err := c.do(ctx, request{method: http.MethodGet, path: whole})
	if err != nil {
		return nil, err
	}
	o, err := loose.Parse(a.body)
	if err != nil {
		return nil, access.Disagree("read %s: %w", text.Clip(path, 200), err)
	}
	if o.Has("error") && o.Self() == "" && !o.Has("Members") { // an error with status 200
		r := newReply(http.MethodGet, path, a.status, a.body)
		return nil, access.Disagree("%w", error(r))
	}
	if part && strings.HasPrefix(inside, "/") {
		o = o.At(inside)
	}
	etag := a.header.Get("ETag")
	if etag == "" {
		etag = o.Text("@odata.etag")
	}
	return &resource{Object: o, path: path, etag: etag}, nil
}

// readShown reads a resource that every service has, or that this one has shown before: a 404 means
// that the BMC is starting.
func (c *Client) readShown(ctx context.Context, path string) (*resource, error) {
	r, err := c.read(ctx, path)
	return r, notYet(err)
}

// unread is a resource that could not be read, while others of the service can be.
type unread struct {
	path string
	err  error
}

func (u unread) Error() string { return u.err.Error() }

func (u unread) Unwrap() error { return u.err }

// partial reports whether err concerns one resource only: the service has answered, and the account
// is accepted. A 403 is such an answer: the account or a license does not include that resource.
func partial(err error) bool {
	if status := statusOf(err); status != 0 {
		return status != http.StatusUnauthorized
	}
	return access.IsAnswered(err)
}

// busy reports whether err is an answer that will probably be another one in a moment.
func busy(err error) bool {
	r, ok := errors.AsType[*reply](err)
	return ok && (r.NotYet || r.Status == http.StatusServiceUnavailable || r.Status == http.StatusTooManyRequests ||
		r.Status == http.StatusGatewayTimeout)
}

// collection is a collection, as far as it was read.
type collection struct {
	members []*resource // those that are not included in full are links only, until fill
	unread  []unread
	more    int // members that the service counts, but does not show, or that are too many
}

// maxPages bounds the pages of one collection that are read.
const maxPages = 64

// collection reads the pages of a collection, up to about most members, each member once. A page
// that cannot be read is listed as unread, except the first one.
func (c *Client) collection(ctx context.Context, path string, most int) (*collection, error) {
	all := new(collection)
	seen, pages := map[string]bool{}, map[string]bool{}
	counted := 0
	for next := path; next != ""; {
		pages[next] = true
		page, err := c.read(ctx, next)
		if err != nil {
			if next == path || !partial(err) {
				return nil, err
			}
			all.unread = append(all.unread, unread{next, err})
			break
		}
		if n, ok := page.Count("Members@odata.count"); ok {
			counted = max(counted, int(min(n, 1<<20)))
		}
		for _, m := range page.Objects("Members") {
			at := m.Self()
			key := strings.TrimRight(at, "/")
			if m.Empty() || key != "" && seen[key] {
				continue
			}
			seen[key] = true
			all.members = append(all.members, &resource{Object: m.Alone(), path: at, etag: m.Text("@odata.etag")})
		}
		next = resolve(next, page.Next())
		switch {
		case next == "":
		case pages[next]:
			all.unread = append(all.unread, unread{path, access.Disagree("read %s: its pages form a circle", path)})
			next = ""
		case len(all.members) >= most || len(pages) == maxPages:
			all.more, next = 1, "" // at least
		}
	}
	all.more = max(all.more, counted-len(all.members))
	if over := len(all.members) - most; over > 0 {
		all.members, all.more = all.members[:most], all.more+over
	}
	return all, nil
}

// resolve returns the path of the next page. Some services give a relative one.
func resolve(base, next string) string {
	if next == "" || strings.HasPrefix(next, "/") || strings.Contains(next, "://") {
		return next
	}
	b, err := url.Parse(base)
	if err != nil {
		return next
	}
	u, err := b.Parse(next)
	if err != nil {
		return next
	}
	return u.String()
}

// members reads a collection and those of its members that it does not include in full. Members
// that the service does not show are listed as unread.
func (c *Client) members(ctx context.Context, path string, most int) (*collection, error) {
	all, err := c.collection(ctx, path, most)
	if err != nil {
		return nil, err
	}
	return all, c.fill(ctx, all)
}

// linked reads the resources at some paths, like members of a collection.
func (c *Client) linked(ctx context.Context, paths []string, most int) (*collection, error) {
	all := new(collection)
	for _, at := range paths[:min(len(paths), most)] {
		all.members = append(all.members, &resource{path: at})
	}
	all.more = len(paths) - len(all.members)
	return all, c.fill(ctx, all)
}

// readers is the number of members that are read at a time, like that of access.Gate.
const readers = 2

// patient is the key of a context whose calls read one member at a time.
type patient struct{}

// oneByOne returns a context for a long reading without urgency: its requests run one after the
// other, so that one of the two readers of the BMC stays free for other calls.
func oneByOne(ctx context.Context) context.Context { return context.WithValue(ctx, patient{}, true) }

// fill reads the members that are only links, and drops those that cannot be read from the members.
func (c *Client) fill(ctx context.Context, all *collection) error {
	var links []int
	for i, m := range all.members {
		if m.Empty() || m.Linked() {
			links = append(links, i)
		}
	}
	var (
		mu    sync.Mutex
		fatal error
		work  sync.WaitGroup
	)
	failed := make([]error, len(all.members))
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		if fatal != nil || len(links) == 0 {
			return -1
		}
		i := links[0]
		links = links[1:]
		return i
	}
	most := readers
	if ctx.Value(patient{}) != nil {
		most = 1
	}
	for range most {
		work.Go(func() {
			for i := take(); i >= 0; i = take() {
				r, err := c.read(ctx, all.members[i].path)
				mu.Lock()
				switch {
				case err == nil:
					all.members[i] = r
				case partial(err):
					failed[i] = err
				case fatal == nil:
					fatal = err
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if fatal != nil {
		return fatal
	}
	read := all.members[:0]
	for i, m := range all.members {
		if failed[i] != nil {
			all.unread = append(all.unread, unread{m.path, failed[i]})
			continue
		}
		read = append(read, m)
	}
	all.members = read
	return nil
}

// id returns the id of a resource, or else the last element of its path.
func (r *resource) id() string {
	if s := r.Text("Id"); s != "" {
		return text.Clip(s, 60)
	}
	if s := r.Text("MemberId"); s != "" {
		return text.Clip(s, 60)
	}
	path := strings.TrimRight(r.path, "/")
	return text.Clip(path[strings.LastIndexByte(path, '/')+1:], 60)
}
