package discoveryapi

import (
	"net/http"
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// services returns all registered services.
func (a *api) services(r *http.Request) ([]*holdfastv1.Service, error) {
	var all []*holdfastv1.Service
	for resp, err := range httpjson.Pages(r.Context(), &holdfastv1.ListServicesRequest{}, a.registry.ListServices) {
		if err != nil {
			return nil, err
		}
		for _, s := range resp.GetServices() {
			if !s.GetDeregistered() {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// list responds with the targets of all services.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	all, err := a.services(r)
	if err != nil {
		fail(w, err)
		return
	}
	targets := make([]target, 0, len(all))
	for _, s := range all {
		targets = append(targets, showTarget(s.GetTarget()))
	}
	httpjson.Write(w, http.StatusOK, response{Data: targets})
}

// states returns a handler that responds with the activity records of services of the given
// types, by service name.
func (a *api) states(types ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all, err := a.services(r)
		if err != nil {
			fail(w, err)
			return
		}
		byName := map[string][]activity{}
		for _, s := range all {
			if t := s.GetTarget(); slices.Contains(types, t.GetServiceType()) {
				byName[t.GetServiceName()] = append(byName[t.GetServiceName()], showActivity(s))
			}
		}
		httpjson.Write(w, http.StatusOK, response{Data: byName})
	}
}
