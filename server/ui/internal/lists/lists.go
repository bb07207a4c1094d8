package lists

import (
	"context"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// Kind is a list and its page.
type Kind struct {
	Name      string // of the page: /ui/NAME
	Title     string
	One, Many string // an entry and several, such as token and tokens
	// Method is a method of the API whose callers may open the page; empty: all viewers.
	Method  string
	Example string // of a filter; empty: the list has none
	Hints   []Hint
	Create  string // command that adds the first entry
	Note    string // below the list
	Columns []string
	Read    func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error)
}

// Hint is a link to a part of a list.
type Hint struct{ Text, Filter string }

// Query selects a part of a list.
type Query struct {
	Filter, Page string
	Size         int32
}

// Part is a part of a list.
type Part struct {
	Rows []Row
	Next string // page token; empty at the end
}

// Row is an entry. Its cells are in the order of the columns.
type Row struct {
	ID    string // unique in the list
	Cells []display.Cell
}

// All returns the lists that the services of the API have.
func All() []Kind {
	return []Kind{images(), installs(), services(), webhooks(), audit(), tokens(), sessions(), secrets(), waves()}
}

// rowsOf returns the rows of items.
func rowsOf[T any](items []T, row func(T) Row) []Row {
	all := make([]Row, 0, len(items))
	for _, x := range items {
		all = append(all, row(x))
	}
	return all
}

// MostCounted bounds the entries that Total counts.
const MostCounted = 5000

// Total returns the number of entries that match a filter, or MostCounted and false if there
// are more.
func Total(ctx context.Context, c grpc.ClientConnInterface, k Kind, filter string) (n int, all bool, err error) {
	q := Query{Filter: filter, Size: 1000}
	for n < MostCounted {
		p, err := k.Read(ctx, c, q)
		if err != nil {
			return 0, false, err
		}
		if n += len(p.Rows); p.Next == "" {
			return n, n <= MostCounted, nil
		}
		q.Page = p.Next
	}
	return MostCounted, false, nil
}
