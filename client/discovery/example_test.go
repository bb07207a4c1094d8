package discovery_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/client/discovery"
)

// peer returns a peer with the discovery API that also issues tokens.
func peer() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /oauth/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"issuer":"http://%[1]s/oauth","token_endpoint":"http://%[1]s/oauth/token"}`, r.Host)
	})
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := r.BasicAuth()
		fmt.Println("token for", id)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"abc","token_type":"Bearer","expires_in":300}`)
	})
	const base = "POST /api/v1/management/discovery"
	mux.HandleFunc(base+"/register", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("register with", r.Header.Get("Authorization"))
		fmt.Fprint(w, `{"error":null,"data":{"id":"550e8400-e29b-41d4-a716-446655440000"}}`)
	})
	mux.HandleFunc(base+"/ping/", func(_ http.ResponseWriter, r *http.Request) {
		id, _ := io.ReadAll(r.Body)
		fmt.Printf("ping %s\n", id)
	})
	mux.HandleFunc(base+"/update/{id}", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("update", r.PathValue("id"))
	})
	mux.HandleFunc(base+"/deregister", func(http.ResponseWriter, *http.Request) { fmt.Println("deregister") })
	return httptest.NewServer(mux)
}

// untilPinged ends a registration after its first ping.
type untilPinged struct{ end context.CancelFunc }

func (untilPinged) OnRegistration(m *discovery.Manager, t discovery.Target) {
	fmt.Println("registered as", t.ID)
	m.Unhealthy("Database connection lost")
}
func (c untilPinged) OnPing(_ *discovery.Manager, _ discovery.Target, status int) {
	fmt.Println("pinged:", status)
	c.end()
}
func (untilPinged) OnDeregistration(_ *discovery.Manager, _ discovery.Target, status int) {
	fmt.Println("deregistered:", status)
}

// This service registers, reports its state, and deregisters.
func Example() {
	router := peer()
	defer router.Close()
	dir, err := os.MkdirTemp("", "my-tool")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, end := context.WithCancel(context.Background())
	defer end()

	host, err := discovery.RegistrationAddress("192.168.1.100") // or discovery.AutoAddress
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := discovery.New(discovery.Config{
		BaseURLs: []string{router.URL}, // all peers of the cluster
		ClientID: "my-tool", Secret: "s3cret", TokenEndpoints: []string{router.URL + "/oauth"},
		DataDir: dir, Period: 50 * time.Millisecond,
		Callbacks: []discovery.Callback{untilPinged{end}},
	}, discovery.Target{ServiceName: "my-tool", Host: host, Port: 9090, ServiceType: discovery.ToolInvoker})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := manager.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// The id outlives the service.
	file, err := os.ReadFile(filepath.Join(dir, "my-tool.wanaku.dat"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bytes: %s, version %d, type %d, %s\n", len(file), file[:6], binary.BigEndian.Uint32(file[6:]),
		binary.BigEndian.Uint32(file[10:]), file[14:])
	// Output:
	// token for my-tool
	// register with Bearer abc
	// registered as 550e8400-e29b-41d4-a716-446655440000
	// update 550e8400-e29b-41d4-a716-446655440000
	// ping 550e8400-e29b-41d4-a716-446655440000
	// pinged: 200
	// deregister
	// deregistered: 200
	// 50 bytes: wanaku, version 1, type 2, 550e8400-e29b-41d4-a716-446655440000
}
