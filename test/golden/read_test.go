package golden

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// passing lists the fields of answers that are computed on each read or change over time.
func passing() []string {
	return []string{"active", "updatedAt", "stateChangedAt", "lastSeen", "revision", "conditions", "effectiveState",
		"effective_state", "state", "status", "missed", "behind", "waiting", "waitingSince", "triedAt", "failures",
		"lastError", "cursor", "keys", "nextPageToken", "lastUsedAt", "note"}
}

// readAll reads all kinds of resources, as plain JSON without the passing fields.
func readAll(ctx context.Context, t *testing.T, c *client.Client) map[string]any {
	t.Helper()
	seen := map[string]any{}
	note := func(name string, m proto.Message, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		text, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		prune(v)
		seen[name] = v
	}
	machines, err := c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{})
	note("machines", machines, err)
	for _, m := range machines.GetMachines() {
		history, err := c.Machines().ListMachineHistory(ctx,
			&holdfastv1.ListMachineHistoryRequest{MachineId: m.GetMachineId()})
		note("history "+m.GetMachineId(), history, err)
	}
	plans, err := c.Plans().ListPlans(ctx, &holdfastv1.ListPlansRequest{})
	if err == nil { // built-in plans belong to the build, not to the data
		plans.Plans = slices.DeleteFunc(plans.GetPlans(),
			func(p *holdfastv1.Plan) bool { return strings.HasPrefix(p.GetPlanId(), "plan/") })
	}
	note("plans", plans, err)
	runs, err := c.Runs().ListRuns(ctx, &holdfastv1.ListRunsRequest{})
	note("runs", runs, err)
	for _, r := range runs.GetRuns() {
		run, err := c.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: r.GetRunId()})
		note("run of "+r.GetMachineId(), run, err)
		var log strings.Builder
		if err := c.ReadLogs(ctx, r.GetRunId(), 0, func(chunk *holdfastv1.LogChunk) error {
			log.Write(chunk.GetData())
			return nil
		}); err != nil {
			t.Fatalf("read the log of run %s: %v", r.GetRunId(), err)
		}
		seen["log of "+r.GetMachineId()] = log.String()
	}
	pools, err := c.Pools().ListPools(ctx, &holdfastv1.ListPoolsRequest{})
	note("pools", pools, err)
	providers, err := c.Pools().ListProviders(ctx, &holdfastv1.ListProvidersRequest{})
	note("providers", providers, err)
	services, err := c.Registry().ListServices(ctx, &holdfastv1.ListServicesRequest{})
	note("services", services, err)
	secrets, err := c.Secrets().ListSecrets(ctx, &holdfastv1.ListSecretsRequest{})
	note("secrets", secrets, err)
	tokens, err := c.Access().ListTokens(ctx, &holdfastv1.ListTokensRequest{})
	note("tokens", tokens, err)
	images, err := c.Images().ListImages(ctx, &holdfastv1.ListImagesRequest{})
	note("images", images, err)
	audit, err := c.Audit().ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{})
	note("audit", audit, err)
	return seen
}

// prune removes the passing fields.
func prune(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range passing() {
			delete(v, k)
		}
		for _, inner := range v {
			prune(inner)
		}
	case []any:
		for _, inner := range v {
			prune(inner)
		}
	}
}

// empty lists the kinds without a resource.
func empty(seen map[string]any) (found []string) {
	for kind, v := range seen {
		if m, ok := v.(map[string]any); ok && len(m) == 0 || v == "" {
			found = append(found, kind)
		}
	}
	slices.Sort(found)
	return found
}
