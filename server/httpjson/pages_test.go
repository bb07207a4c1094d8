package httpjson_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// TestPages checks that all pages are read with their tokens, and that an error is the last one.
func TestPages(t *testing.T) {
	for after, want := range map[string][]string{
		"":  {"1000 ", "1000 b", "1000 c"},
		"b": {"1000 ", "1000 b", "failed"},
	} {
		next := map[string]string{"": "b", "b": "c"}
		list := func(
			_ context.Context, r *holdfastv1.ListPlansRequest, _ ...grpc.CallOption,
		) (*holdfastv1.ListPlansResponse, error) {
			if after != "" && r.GetPageToken() == next[after] {
				return nil, errors.New("failed")
			}
			plan := &holdfastv1.Plan{PlanId: fmt.Sprint(r.GetPageSize(), " ", r.GetPageToken())}
			return &holdfastv1.ListPlansResponse{
				Plans: []*holdfastv1.Plan{plan}, NextPageToken: next[r.GetPageToken()],
			}, nil
		}
		var got []string
		for resp, err := range httpjson.Pages(t.Context(), &holdfastv1.ListPlansRequest{}, list) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, resp.GetPlans()[0].GetPlanId())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("error after %q: %s", after, diff)
		}
	}
}
