package bulk

import (
	"context"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/fleet"
)

// Machines reads machines.
type Machines interface {
	fleet.Lister
	GetMachine(context.Context, *holdfastv1.GetMachineRequest, ...grpc.CallOption) (*holdfastv1.Machine, error)
}

// Selection is how a form selects machines: by their ids, or all that match a filter.
type Selection struct {
	IDs    []string
	All    bool
	Filter string
}

// selectionOf returns the selection of a form: the fields m, or all and filter.
func selectionOf(form url.Values) Selection {
	if form.Get("all") != "" {
		return Selection{All: true, Filter: strings.TrimSpace(form.Get("filter"))}
	}
	var s Selection
	seen := map[string]bool{}
	for _, id := range form["m"] {
		if id != "" && !seen[id] {
			seen[id] = true
			s.IDs = append(s.IDs, id)
		}
	}
	return s
}

// read returns the selected machines. A machine that does not exist has only an id.
func (s Selection) read(ctx context.Context, c Machines) ([]*holdfastv1.Machine, error) {
	if s.All {
		return s.matching(ctx, c)
	}
	switch {
	case len(s.IDs) == 0:
		return nil, status.Error(codes.InvalidArgument, "no machine is selected: select machines in the list first")
	case len(s.IDs) > Most:
		return nil, tooMany()
	}
	all := make([]*holdfastv1.Machine, 0, len(s.IDs))
	for _, id := range s.IDs {
		m, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
		if status.Code(err) == codes.NotFound {
			m, err = &holdfastv1.Machine{MachineId: id}, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// matching returns all machines that match the filter.
func (s Selection) matching(ctx context.Context, c Machines) ([]*holdfastv1.Machine, error) {
	var all []*holdfastv1.Machine
	err := fleet.Each(ctx, c, s.Filter, func(m *holdfastv1.Machine) bool {
		all = append(all, m)
		return len(all) <= Most
	})
	switch {
	case err != nil:
		return nil, err
	case len(all) > Most:
		return nil, tooMany()
	case len(all) == 0:
		return nil, status.Error(codes.InvalidArgument, "no machine matches the filter: nothing is selected")
	}
	return all, nil
}

func tooMany() error {
	return status.Errorf(codes.InvalidArgument, "more than %d machines are selected: use a narrower filter, or "+
		"holdfast run start --selector", Most)
}
