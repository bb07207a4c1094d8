package bmc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

// TestNamedLog checks that a log is read and cleared by its id, of the system or of its manager,
// and that logs of the BMC itself are left alone.
func TestNamedLog(t *testing.T) {
	t.Parallel()
	service := func(at string) string {
		return fmt.Sprintf(`{"Entries": {"@odata.id": "%[1]s/Entries"}, "Actions": {"#LogService.ClearLog": {"target":
			"%[1]s/Actions/LogService.ClearLog"}}}`, "/redfish/v1/"+at)
	}
	var logs []string
	for _, at := range []string{
		"Systems/1/LogServices/Alpha", "Systems/1/LogServices/Beta", "Systems/1/LogServices/AuditLog",
		"Managers/B/LogServices/Gamma", "Managers/B/LogServices/SL",
	} {
		logs = append(logs, at, service(at), at+"/Entries", `{"Members": [{"Id": "1", "Message": "of `+at+`"}]}`)
	}
	change := both(set(logs...), set(
		"Systems/1/LogServices", `{"Members": [{"@odata.id": "/redfish/v1/Systems/1/LogServices/Alpha"},
			{"@odata.id": "/redfish/v1/Systems/1/LogServices/Beta"}, {"@odata.id": "/redfish/v1/Systems/1/LogServices/AuditLog"}]}`,
		"Managers/B", `{"ManagerType": "BMC", "LogServices": {"@odata.id": "/redfish/v1/Managers/B/LogServices"}}`,
		"Managers/B/LogServices", `{"Members": [{"@odata.id": "/redfish/v1/Managers/B/LogServices/Gamma"},
			{"@odata.id": "/redfish/v1/Managers/B/LogServices/SL"}]}`))
	for log, want := range map[string]string{
		"":         "name one (--log Alpha)",
		"Beta":     "Systems/1/LogServices/Beta",
		"gamma":    "Managers/B/LogServices/Gamma",
		"AuditLog": "no such log of the hardware: it has Alpha, Beta, Gamma",
		"SL":       "no such log of the hardware",
		"Delta":    "no such log of the hardware",
	} {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			tree, p, m := growTree(t, change)
			events, err := p.Events(t.Context(), m, log)
			cerr := p.ClearEvents(t.Context(), op("clear"), m, log)
			var cleared []string
			for _, r := range tree.Requests() {
				if at, ok := strings.CutSuffix(r.Path, "/Actions/LogService.ClearLog"); ok {
					cleared = append(cleared, strings.TrimPrefix(at, "/redfish/v1/"))
				}
			}
			if !strings.Contains(want, "/LogServices/") {
				for _, err := range []error{err, cerr} {
					if providers.ClassOf(err) != providers.Unsupported || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q in a refusal", err, want)
					}
				}
				if len(cleared) > 0 {
					t.Errorf("cleared %q", cleared)
				}
				return
			}
			if err != nil || cerr != nil || len(events) != 1 || events[0].Message != "of "+want {
				t.Errorf("got %+v, %v, %v", events, err, cerr)
			}
			if diff := cmp.Diff([]string{want}, cleared); diff != "" {
				t.Errorf("cleared logs (-want +got):\n%s", diff)
			}
		})
	}
}
