package prometheusapi

import (
	"net/http"
	"strconv"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// Pattern is the only route.
const Pattern = "GET /api/v1/sd/prometheus"

// defaultPort is the port of Prometheus's node exporter.
const defaultPort = 9100

type api struct {
	machines holdfastv1.MachineServiceClient
}

// Register adds the route to a mux. Calls to the services use rpc.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface) {
	a := &api{machines: holdfastv1.NewMachineServiceClient(rpc)}
	httpjson.Add(m, refused, httpjson.Route{Pattern: Pattern, RPC: "MachineService/ListMachines", Handler: a.targets})
}

// failure is the body of an error. Prometheus logs it and keeps its current targets.
type failure struct {
	Error string `json:"error"`
}

func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	httpjson.Write(w, code, failure{err.Message})
}

// targets responds with the machines that match ?filter= (default: all) and have an
// address, with ?port= (9100). The address is the host's, or the BMC's with ?address=bmc.
// Prometheus does not support paging, so the response contains all of them.
func (a *api) targets(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	port, ok := portOf(q.Get("port"))
	if !ok {
		message := "port: want a number from 1 to 65535, not " + strconv.Quote(q.Get("port"))
		httpjson.Write(w, http.StatusBadRequest, failure{message})
		return
	}
	address, ok := addresses()[q.Get("address")]
	if !ok {
		message := "address: want host or bmc, not " + strconv.Quote(q.Get("address"))
		httpjson.Write(w, http.StatusBadRequest, failure{message})
		return
	}
	all := []group{} // never null: Prometheus requires a list
	req := &holdfastv1.ListMachinesRequest{Filter: q.Get("filter")}
	for resp, err := range httpjson.Pages(r.Context(), req, a.machines.ListMachines) {
		if err != nil {
			httpjson.Write(w, httpjson.Status(err), failure{httpjson.Message(err)})
			return
		}
		for _, m := range resp.GetMachines() {
			if host := address(m); host != "" {
				all = append(all, groupOf(m, host, port))
			}
		}
	}
	httpjson.Write(w, http.StatusOK, all)
}

func portOf(text string) (int, bool) {
	if text == "" {
		return defaultPort, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n < 1<<16
}
