package lists

import (
	"context"
	"net"
	"strconv"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

func services() Kind {
	return Kind{
		Name: "services", Title: "Services", One: "service", Many: "services",
		Example: `service_type = "tool-invoker" AND active = true`,
		Hints:   []Hint{{"active", "active = true"}, {"inactive", "active = false"}},
		Create: `curl https://PEER:7401/api/v1/management/discovery/register -H "Authorization: Bearer $TOKEN" ` +
			`-d '{"id":null,"serviceName":"my-tool","host":"10.0.0.1","port":9090,"serviceType":"tool-invoker"}'`,
		Note:    "Services register themselves with the discovery API.",
		Columns: []string{"Service", "Type", "Address", "Active", "Health", "Last seen", "Id"},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewRegistryServiceClient(c).ListServices(ctx, &holdfastv1.ListServicesRequest{
				Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetServices(), serviceRow), resp.GetNextPageToken()}, err
		},
	}
}

func serviceRow(s *holdfastv1.Service) Row {
	active := display.Badge("inactive", "")
	switch {
	case s.GetActive():
		active = display.Badge("active", "succeeded")
	case s.GetDeregistered():
		active = display.Badge("deregistered", "")
	}
	health := display.Cell{Class: "why"}
	if n := len(s.GetStates()); n > 0 {
		last := s.GetStates()[n-1]
		text := display.Text("healthy")
		if !last.GetHealthy() {
			text = display.Badge("unhealthy", "failed").And(display.Text(last.GetReason()))
		}
		health = health.And(text).And(display.When(last.GetTimestamp()))
	}
	t := s.GetTarget()
	return Row{t.GetId(), []display.Cell{
		display.Text(t.GetServiceName()),
		display.Text(t.GetServiceType()),
		display.ID(net.JoinHostPort(t.GetHost(), strconv.Itoa(int(t.GetPort())))),
		active,
		health,
		display.When(s.GetLastSeen()),
		display.ID(t.GetId()),
	}}
}

func audit() Kind {
	return Kind{
		Name: "audit", Title: "Audit", One: "event", Many: "events",
		Method:  "AuditService/ListAuditEvents",
		Example: `outcome != OK AND principal = "user:alice"`,
		Hints:   []Hint{{"refused", "outcome != OK"}, {"runs started", `method = "*StartRun"`}},
		Note:    "The events form a hash chain. To verify that none is missing: `holdfast audit verify`",
		Columns: []string{"No.", "When", "Principal", "Method", "Resource", "Outcome", "Source", "Peer"},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewAuditServiceClient(c).ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{
				Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetEvents(), eventRow), resp.GetNextPageToken()}, err
		},
	}
}

func eventRow(e *holdfastv1.AuditEvent) Row {
	outcome := display.Text("OK")
	if e.GetOutcome() != "OK" {
		outcome = display.Badge(e.GetOutcome(), "failed").And(display.Text(e.GetReason()))
	}
	if n := e.GetCount(); n > 1 {
		outcome = outcome.And(display.Text("× " + describe.Count(int(n))))
	}
	return Row{strconv.FormatUint(e.GetSequence(), 10), []display.Cell{
		display.Number(e.GetSequence()),
		display.When(e.GetAt()),
		display.Text(e.GetPrincipal()),
		display.Text(e.GetMethod()),
		display.Text(e.GetResource()),
		outcome,
		display.Text(e.GetSource()),
		display.Text(e.GetPeer()),
	}}
}
