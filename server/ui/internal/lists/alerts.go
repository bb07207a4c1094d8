package lists

import (
	"strings"

	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
)

// runbook is the page with a section for each alert.
const runbook = "https://github.com/holdfast-metal/holdfast/blob/main/docs/runbooks/alerts.md"

// Alerts returns the list of alerts, the firing ones first.
func Alerts() Kind {
	return Kind{
		Name: "alerts", Title: "Alerts", One: "alert", Many: "alerts",
		Columns: []string{"Alert", "State", "Severity", "Fires if", "Details", "Next step", "Runbook"},
		Note: "This peer evaluates these rules from its own state, now. Prometheus evaluates them over time " +
			"(deploy/monitoring/alerts.yml), and in addition: " + strings.Join(health.OnlyInPrometheus(), ", ") + ".",
	}
}

// AlertRows returns the rows of alerts, the firing ones first.
func AlertRows(alerts []health.Alert) []Row {
	like := map[string]string{"critical": "failed", "warning": "maintenance", "info": "running"}
	var firing, rest []Row
	for _, a := range alerts {
		state, details, remedy := display.Badge("ok", "active"), display.Cell{}, display.Cell{}
		switch {
		case a.Hidden:
			state = display.Badge("not visible to you", "")
		case len(a.Firing) > 0:
			state, details = display.Badge("firing", like[a.Severity]), display.Long(strings.Join(a.Firing, "; "))
			remedy = display.Command(a.Remedy)
		}
		book := display.Cell{}
		if strings.HasPrefix(a.Name, "Holdfast") {
			book = display.To("runbook", runbook+"#"+strings.ToLower(a.Name))
			book.Class = "" // not as wide as an id
		}
		row := Row{a.Name, []display.Cell{
			display.Text(a.Name), state, display.Text(a.Severity), display.Long(a.Rule), details, remedy, book,
		}}
		if len(a.Firing) > 0 {
			firing = append(firing, row)
		} else {
			rest = append(rest, row)
		}
	}
	return append(firing, rest...)
}
