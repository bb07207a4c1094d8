package providertest

import (
	"slices"

	"github.com/holdfast-metal/holdfast/providers"
)

func healthTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"TellsOfParts": func(h *harness) {
			p := need[providers.HealthReader](h)
			got, err := p.Health(h.ctx, h.Machine)
			h.ok("read the health", err)
			for _, problem := range got.Problems {
				if problem.Kind == "" || problem.Text == "" {
					h.Fatalf("problem %+v names no part, or no kind", problem)
				}
			}
			if h.Broken == nil {
				return
			}
			before := len(got.Problems)
			want := h.Broken(h.ctx)
			h.eventually("problem of the broken part", func() (bool, error) {
				got, err = p.Health(h.ctx, h.Machine)
				if slices.Contains(got.Problems, want) {
					return len(got.Problems) == before+1, err
				}
				return false, err
			})
		},
		"SaysTheSameTwice": func(h *harness) {
			p := need[providers.HealthReader](h)
			first, err := p.Health(h.ctx, h.Machine)
			h.ok("read the health", err)
			again, err := p.Health(h.ctx, h.Machine)
			h.ok("read the health again", err)
			if len(first.Problems) != len(again.Problems) {
				h.Fatalf("got %+v, then %+v, without a change in between", first, again)
			}
			for i, problem := range first.Problems {
				if again.Problems[i].Kind != problem.Kind { // a temperature may have changed
					h.Fatalf("got %+v, then %+v, in another order", first, again)
				}
			}
		},
		"ChangesNothing": func(h *harness) {
			p := need[providers.HealthReader](h)
			h.unchanged("reading the health", func() error {
				_, err := p.Health(h.ctx, h.Machine)
				return err
			})
		},
	}
}
