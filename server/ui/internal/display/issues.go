package display

import (
	"strings"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Issues returns the issues of a machine that its explanation does not mention, each with the
// message of its condition.
func Issues(m *holdfastv1.Machine, why *holdfastv1.MachineExplanation) []string {
	messages := map[string]string{}
	for _, c := range m.GetStatus().GetConditions() {
		messages[c.GetType()] = c.GetMessage()
	}
	var all []string
	for _, i := range m.GetStatus().GetIssues() {
		text, message := describe.Issue(i), messages[i.GetType()]
		switch {
		case i.GetType() == "PoweredOff" && strings.HasPrefix(why.GetSummary(), "powered off"):
		case i.GetType() == "NeedsIntervention" && why.GetLastError() != "":
		case text == why.GetSummary():
			if message != "" {
				all = append(all, message)
			}
		case message != "" && !strings.Contains(text, message):
			all = append(all, text+": "+message)
		default:
			all = append(all, text)
		}
	}
	return all
}
