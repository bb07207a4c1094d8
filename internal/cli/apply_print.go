package cli

import (
	"encoding/json"
)

// appliedDocument is the result of a file's documents, for scripts.
type appliedDocument struct {
	DryRun  bool              `json:"dry_run"`
	Applied []appliedResource `json:"applied"` // in the order of their kinds, then of the file
}

type appliedResource struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Action  action          `json:"action"` // created, updated, unchanged, failed
	Changes []appliedChange `json:"changes,omitempty"`
	Error   string          `json:"error,omitempty"`
}

type appliedChange struct {
	Field string `json:"field"`
	Was   string `json:"was,omitempty"` // as the table shows it; nothing: it was not set
	Now   string `json:"now,omitempty"`
}

// printAppliedAs prints the results as JSON, YAML or through an expression. It returns the
// error of the table.
func (a *app) printAppliedAs(o *output, all []applied, file string, dryRun bool) error {
	doc := appliedDocument{DryRun: dryRun, Applied: make([]appliedResource, len(all))}
	var bad []error
	for i, one := range all {
		r := appliedResource{Kind: one.noun, ID: one.id, Action: one.action}
		if one.err != nil {
			r.Action, r.Error = "failed", one.err.Error()
			bad = append(bad, one.err)
		} else {
			for _, c := range one.changes {
				r.Changes = append(r.Changes, appliedChange{Field: c.Path, Was: c.Was, Now: c.Now})
			}
		}
		doc.Applied[i] = r
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if err := a.document(o, raw); err != nil {
		return err
	}
	return several(bad, len(all), "apply "+file)
}
