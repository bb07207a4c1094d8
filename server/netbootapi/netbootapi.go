// Package netbootapi is the HTTP API of machines that boot from the network: the boot script that
// iPXE asks for, and the installer's work order, reports and log (docs/netboot.md).
//
// It owns the wire form: iPXE's language, JSON, {"detail": …} for errors. Which machine may install
// what is for InstallService to say, which it calls in this process. It must not know the FSM or
// the cluster. A machine brings no credentials but the token of its install session.
package netbootapi

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// Config is what a peer can be told of netboot.
type Config struct {
	// Dir has the programs that firmware fetches before it has iPXE (Programs); empty: none are
	// served.
	Dir string
	// Port is that of the plain listener for machines, which all peers have in common; empty:
	// machines use the one of the other HTTP APIs.
	Port string
	// Neighbors returns the MAC address that an IP address has on the networks of this peer, "" if
	// it is not known there; nil: boot scripts are served to all callers.
	Neighbors func(netip.Addr) string
}

// Programs lists the files of Config.Dir that are served. Debian's package ipxe has them under
// /usr/lib/ipxe.
func Programs() []string {
	return []string{"ipxe.efi", "snponly.efi", "ipxe-arm64.efi", "undionly.kpxe", "ipxe.pxe"}
}

type api struct {
	cfg Config
	rpc holdfastv1.InstallServiceClient
	log *slog.Logger
}

// Register adds the routes to a mux, each with a slash at its end too. InstallService is called
// through rpc.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, cfg Config, log *slog.Logger) {
	a := &api{cfg: cfg, rpc: holdfastv1.NewInstallServiceClient(rpc), log: log}
	httpjson.Add(m, bootRefused, httpjson.Route{Pattern: "GET /api/v1/boot", RPC: "InstallService/BootMachine", Handler: a.boot})
	httpjson.Add(m, refused,
		httpjson.Route{Pattern: "GET /api/v1/install", RPC: "InstallService/GetWorkOrder", Handler: a.order},
		httpjson.Route{Pattern: "POST /api/v1/install/report", RPC: "InstallService/ReportInstall", Handler: a.report},
		httpjson.Route{Pattern: "POST /api/v1/install/log", RPC: "InstallService/AppendInstallLog", Handler: a.logPart},
		httpjson.Route{Pattern: "GET /netboot/{file}", RPC: "InstallService/BootMachine", Handler: a.program},
	)
}

// previewToken stands in a script that is only looked at. It opens nothing.
const previewToken = "PREVIEW"

// boot answers the boot script of the machine with ?mac=. With &preview it changes nothing and
// makes no token. Without a mac, it answers a script that asks with one. The status is always 200:
// firmware that gets an error does what its maker thought of, and this way it boots its disk, or
// asks again.
func (a *api) boot(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s := script{base: baseOf(r), mac: q.Get("mac")}
	if s.mac == "" {
		s.ask(w)
		return
	}
	req := &holdfastv1.BootMachineRequest{Mac: s.mac, Arch: q.Get("arch"), IpAddress: hostOf(r.RemoteAddr), LinkAddress: a.linkOf(r)}
	answer, err := a.rpc.LookUpBoot(r.Context(), req)
	preview := q.Has("preview")
	if preview && answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL {
		answer.Token = previewToken
	}
	if err == nil && !preview && (answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL || answer.GetAction() == holdfastv1.BootMachineResponse_WAIT || answer.GetUnknown()) && r.Method != http.MethodHead {
		answer, err = a.rpc.BootMachine(r.Context(), req)
	}
	s.others = a.servers(r, answer.GetHttpAddrs())[1:]
	switch {
	case err != nil && status.Code(err) == codes.InvalidArgument:
		s.disk(w, "", httpjson.Message(err))
	case err != nil:
		a.log.Warn("a machine has asked for its boot script in vain: it asks again", "mac", s.mac, "error", httpjson.Message(err))
		s.again(w, "", "the cluster cannot tell now what to boot")
	case answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL || answer.GetAction() == holdfastv1.BootMachineResponse_INVENTORY:
		if preview {
			s.image(w, answer)
			return
		}
		a.log.Info("machine boots from the network", "machine", answer.GetMachineId(), "run", answer.GetRunId(), "image", answer.GetImage(), "address", req.GetIpAddress())
		s.image(w, answer)
	case answer.GetAction() == holdfastv1.BootMachineResponse_WAIT:
		s.again(w, answer.GetMachineId(), answer.GetReason())
	default:
		s.disk(w, answer.GetMachineId(), answer.GetReason())
	}
}

// program answers a file that firmware boots, and the script that iPXE asks for next to where it
// came from.
func (a *api) program(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "autoexec.ipxe" {
		s := script{base: baseOf(r)}
		s.ask(w)
		return
	}
	for _, known := range Programs() {
		if name != known || a.cfg.Dir == "" {
			continue
		}
		f, err := os.Open(filepath.Join(a.cfg.Dir, known))
		if err != nil {
			break
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			break
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, known, info.ModTime(), f)
		return
	}
	httpjson.Write(w, http.StatusNotFound, failure{"there is no " + strconv.Quote(name) + " in --netboot-dir of this peer: it may hold " + strings.Join(Programs(), ", ")})
}

// baseOf returns the URL that the client has reached this peer by. What is no host and port is not
// repeated to anybody.
func baseOf(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	host := r.Host
	if !plainHost(host) {
		host = "127.0.0.1"
		if own, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			host = own.String()
		}
	}
	return scheme + host
}

// plainHost reports whether a Host header is a name or an address, with a port or without one.
func plainHost(host string) bool {
	return host != "" && len(host) <= 255 && strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]") == ""
}

// linkOf returns the MAC address of the caller, "" if it is not known.
func (a *api) linkOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || a.cfg.Neighbors == nil {
		return ""
	}
	return a.cfg.Neighbors(from.Addr().Unmap().WithZone(""))
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return host
}

// failure is the body of every error.
type failure struct {
	Detail any `json:"detail"`
}

func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	httpjson.Write(w, code, failure{err.Message})
}

// bootRefused has a machine that asks too often wait and ask again. Others get the status: no
// machine names a wrong host.
func bootRefused(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
	s := script{base: baseOf(r), mac: r.URL.Query().Get("mac")}
	switch {
	case code != http.StatusTooManyRequests:
		refused(w, r, code, err)
	case s.mac == "":
		s.ask(w)
	default:
		s.again(w, "", err.Message)
	}
}

// fail words the error of a call: 401 for a token that nobody knows, 410 for one whose session is
// over.
func fail(w http.ResponseWriter, err error) {
	code := httpjson.Status(err)
	switch {
	case code == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	case status.Code(err) == codes.InvalidArgument:
		code = http.StatusUnprocessableEntity
	}
	httpjson.Write(w, code, failure{httpjson.Message(err)})
}

// token returns the bearer token of a request; without one the answer is 401.
func token(w http.ResponseWriter, r *http.Request) (string, bool) {
	t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if t = strings.TrimSpace(t); !ok || t == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
		httpjson.Write(w, http.StatusUnauthorized, failure{"the install token is missing: send Authorization: Bearer and what holdfast.token= says"})
		return "", false
	}
	return t, true
}

// logPart takes a part of the installer's log: the body is text, from ?offset= on.
func (a *api) logPart(w http.ResponseWriter, r *http.Request) {
	t, ok := token(w, r)
	if !ok {
		return
	}
	var offset int64
	if text := r.URL.Query().Get("offset"); text != "" {
		var err error
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil || offset < 0 {
			httpjson.Write(w, http.StatusUnprocessableEntity, failure{"offset: want a whole number from 0 on, not " + strconv.Quote(text)})
			return
		}
	}
	data, err := io.ReadAll(r.Body)
	switch {
	case auth.TooLarge(err):
		httpjson.Write(w, http.StatusRequestEntityTooLarge, failure{"the body has more than " + strconv.Itoa(auth.MaxBody) + " bytes: send it in parts"})
		return
	case err != nil:
		httpjson.Write(w, http.StatusBadRequest, failure{"the body did not come whole"})
		return
	}
	resp, err := a.rpc.AppendInstallLog(r.Context(), &holdfastv1.AppendInstallLogRequest{Token: t, Offset: offset, Data: data})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, map[string]int64{"next": resp.GetNext()})
}
