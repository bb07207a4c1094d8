package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// maxBody bounds a request, in bytes. It includes scripts and cloud-init configurations.
const maxBody = 4 << 20

// Handler serves the fleet over HTTP (docs/operating.md):
//
//	GET  /healthz         200 if it serves
//	GET  /effects         effects, in order; ?machine_id= &run_id= &after=SEQ
//	GET  /machines        every machine that was ever used, by id
//	GET  /machines/{id}   one of them
//	GET  /faults          the faults in force
//	POST /faults          changes the faults in the body (YAML or JSON; keys: Faults, "machines")
//	PUT  /faults          replaces all faults
//	POST /ops/{operation} calls of the provider; 412 for an effect after the time in its header
//	                      Holdfast-Not-After
func (f *Fleet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /effects", f.getEffects)
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		all := []MachineState{}
		for _, id := range f.ids() {
			if s, ok := f.State(id); ok {
				all = append(all, s)
			}
		}
		answer(w, http.StatusOK, all)
	})
	mux.HandleFunc("GET /machines/{id}", func(w http.ResponseWriter, r *http.Request) {
		s, ok := f.State(r.PathValue("id"))
		if !ok {
			refuse(w, http.StatusNotFound, providers.Unsupported,
				fmt.Errorf("machine %q was never used; machines are created on first use", r.PathValue("id")))
			return
		}
		answer(w, http.StatusOK, s)
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, f.faultsBody())
	})
	mux.HandleFunc("POST /faults", f.changeFaults)
	mux.HandleFunc("PUT /faults", f.changeFaults)
	mux.HandleFunc("POST /ops/{operation}", f.operate)
	return mux
}

func (f *Fleet) getEffects(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after := 0
	if s := q.Get("after"); s != "" {
		var err error
		if after, err = strconv.Atoi(s); err != nil {
			refuse(w, http.StatusBadRequest, providers.Unsupported,
				fmt.Errorf("after is %q: want the seq of an effect", s))
			return
		}
	}
	answer(w, http.StatusOK, f.Effects(q.Get("machine_id"), q.Get("run_id"), after))
}

// faultsBody is the body of GET /faults.
type faultsBody struct {
	Faults
	Machines map[string]Faults `json:"machines"`
}

func (f *Fleet) faultsBody() faultsBody {
	all, machines := f.Faults()
	return faultsBody{all, machines}
}

func (f *Fleet) changeFaults(w http.ResponseWriter, r *http.Request) {
	f.changeMu.Lock()
	defer f.changeMu.Unlock()
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		raw, err = yaml.YAMLToJSONStrict(raw)
	}
	in := struct {
		Faults
		Machines map[string]json.RawMessage `json:"machines"`
	}{}
	var old map[string]Faults
	if r.Method == http.MethodPost {
		in.Faults, old = f.Faults()
	}
	if err == nil {
		err = settings.Read(raw, &in)
	}
	var machines map[string]Faults
	if err == nil {
		machines, err = overlay(in.Faults, old, in.Machines)
	}
	if err == nil {
		err = f.SetFaults(in.Faults, machines)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, providers.Unsupported, fmt.Errorf("set faults: %w", err))
		return
	}
	answer(w, http.StatusOK, f.faultsBody())
}

func (f *Fleet) operate(w http.ResponseWriter, r *http.Request) {
	o, ok := f.ops[r.PathValue("operation")]
	if !ok {
		refuse(w, http.StatusNotFound, providers.Unsupported,
			fmt.Errorf("unknown operation %q", r.PathValue("operation")))
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var in request
	if err == nil {
		err = settings.Read(raw, &in)
	}
	if err == nil && in.MachineID == "" {
		err = errors.New("machine_id is empty")
	}
	if err == nil {
		in.notAfter, err = readNotAfter(r.Header)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, providers.Unsupported, fmt.Errorf("read request: %w", err))
		return
	}
	w.Header().Set(settleHeader, f.settle(in.MachineID).String())
	out, err := f.do(r.Context(), o, in)
	if err != nil {
		c := providers.ClassOf(err)
		refuse(w, statusOf(c), c, err)
		return
	}
	answer(w, http.StatusOK, out)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the caller has gone
}

func refuse(w http.ResponseWriter, status int, c providers.Class, err error) {
	answer(w, status, failure{Class: c, Error: err.Error()})
}
