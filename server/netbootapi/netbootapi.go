// Package netbootapi is the HTTP API for machines that boot from the network: the boot
// script for iPXE, and the installer's work order, reports and log (docs/netboot.md).
//
// It owns the wire form: iPXE scripts, JSON, and {"detail": …} for errors. InstallService,
// which it calls in this process, decides which machine may install which image. The
// package must not import the FSM or the cluster. A machine's only credential is the token
// of its install session.
package netbootapi

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// Config configures the API.
type Config struct {
	// Dir contains the programs that firmware fetches before it runs iPXE (Programs). If
	// empty, none are served.
	Dir string
	// Port is the port of the plain HTTP listener for machines, the same on all peers. If
	// empty, machines use the port of the other HTTP APIs.
	Port string
	// Neighbors returns the MAC address of an IP address on this peer's networks, or "" if
	// unknown. If nil, there are no neighbors.
	Neighbors func(netip.Addr) string
	// Routed has the networks behind routers. Callers in them are believed.
	Routed []netip.Prefix
}

// Programs returns the names of the files that are served from Config.Dir. Debian's package
// ipxe installs them in /usr/lib/ipxe.
func Programs() []string {
	return []string{"ipxe.efi", "snponly.efi", "ipxe-arm64.efi", "undionly.kpxe", "ipxe.pxe"}
}

type api struct {
	cfg Config
	rpc holdfastv1.InstallServiceClient
	log *slog.Logger
}

// Register adds the routes to a mux, each with and without a trailing slash. Calls to
// InstallService use rpc.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, cfg Config, log *slog.Logger) {
	a := &api{cfg: cfg, rpc: holdfastv1.NewInstallServiceClient(rpc), log: log}
	route := httpjson.NewRoute
	httpjson.Add(m, bootRefused, route("GET /api/v1/boot", "InstallService/BootMachine", a.boot))
	httpjson.Add(m, refused,
		route("GET /api/v1/install", "InstallService/GetWorkOrder", a.order),
		route("POST /api/v1/install/report", "InstallService/ReportInstall", a.report),
		route("POST /api/v1/install/log", "InstallService/AppendInstallLog", a.logPart),
		route("GET /netboot/{file}", "InstallService/BootMachine", a.program),
	)
}

// previewToken replaces the token in a preview of a script. It is not valid.
const previewToken = "PREVIEW"

// boot responds with the boot script of the machine with ?mac=. With &preview it has no
// side effects and issues no token. Without ?mac= it responds with a script that calls
// again with the address. The status is always 200, because firmware handles errors in
// vendor-specific ways. A script can instead boot the disk or retry.
func (a *api) boot(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s := script{base: baseOf(r), mac: q.Get("mac")}
	if s.mac == "" {
		s.chain(w)
		return
	}
	req := &holdfastv1.BootMachineRequest{
		Mac:       s.mac,
		Arch:      q.Get("arch"),
		IpAddress: hostOf(r.RemoteAddr),
		Caller:    a.callerOf(r),
	}
	answer, err := a.rpc.LookUpBoot(r.Context(), req)
	preview := q.Has("preview")
	action := answer.GetAction()
	if preview && action == holdfastv1.BootMachineResponse_INSTALL {
		answer.Token = previewToken
	}
	// A caller that is not known to be the machine gets the same answer for all MAC addresses, also
	// without a leader: its disk.
	stranger := err == nil && action == holdfastv1.BootMachineResponse_WAIT && answer.GetMachineId() == ""
	reason := answer.GetReason()
	commits := action == holdfastv1.BootMachineResponse_INSTALL || action == holdfastv1.BootMachineResponse_WAIT ||
		answer.GetUnknown()
	if err == nil && !preview && commits && r.Method != http.MethodHead {
		answer, err = a.rpc.BootMachine(r.Context(), req)
	}
	s.others = a.servers(r, answer.GetHttpAddrs())[1:]
	switch {
	case err != nil && status.Code(err) == codes.InvalidArgument:
		s.disk(w, "", httpjson.Message(err))
	case stranger:
		s.disk(w, "", reason)
	case err != nil:
		a.log.Warn("boot script not available, machine will retry", "mac", s.mac, "error", httpjson.Message(err))
		s.again(w, "", "the cluster is not available")
	case answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL,
		answer.GetAction() == holdfastv1.BootMachineResponse_INVENTORY:
		if preview {
			s.image(w, answer)
			return
		}
		a.log.Info("machine boots from the network",
			"machine", answer.GetMachineId(), "run", answer.GetRunId(),
			"image", answer.GetImage(), "address", req.GetIpAddress())
		s.image(w, answer)
	case answer.GetAction() == holdfastv1.BootMachineResponse_WAIT:
		s.again(w, answer.GetMachineId(), answer.GetReason())
	default:
		s.disk(w, answer.GetMachineId(), answer.GetReason())
	}
}

// program responds with a file that firmware boots, or with the script that iPXE requests
// next to that file.
func (a *api) program(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "autoexec.ipxe" {
		s := script{base: baseOf(r)}
		s.chain(w)
		return
	}
	if slices.Contains(Programs(), name) && a.cfg.Dir != "" {
		if f, err := os.Open(filepath.Join(a.cfg.Dir, name)); err == nil {
			defer func() { _ = f.Close() }()
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				w.Header().Set("Content-Type", "application/octet-stream")
				http.ServeContent(w, r, name, info.ModTime(), f)
				return
			}
		}
	}
	message := "there is no " + strconv.Quote(name) + " in --netboot-dir of this peer: it may contain " +
		strings.Join(Programs(), ", ")
	httpjson.Write(w, http.StatusNotFound, failure{message})
}

// baseOf returns the URL by which the client reached this peer. An invalid Host header is
// not repeated to the client.
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

// plainHost reports whether a Host header is a name or an address, with or without a port.
func plainHost(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]"
	return host != "" && len(host) <= 255 && strings.Trim(host, allowed) == ""
}

// callerOf returns where a request comes from.
func (a *api) callerOf(r *http.Request) *holdfastv1.InstallCaller {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return nil
	}
	ip := from.Addr().Unmap().WithZone("")
	c := &holdfastv1.InstallCaller{Address: ip.String(), Routed: slices.ContainsFunc(a.cfg.Routed,
		func(p netip.Prefix) bool { return p.Contains(ip) })}
	if a.cfg.Neighbors != nil {
		c.LinkAddress = a.cfg.Neighbors(ip)
	}
	return c
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

// bootRefused makes a machine that exceeds its rate limit wait and retry. Other errors are
// returned as a status, because no machine causes them.
func bootRefused(w http.ResponseWriter, r *http.Request, code int, err *auth.Error) {
	s := script{base: baseOf(r), mac: r.URL.Query().Get("mac")}
	switch {
	case code != http.StatusTooManyRequests:
		refused(w, r, code, err)
	case s.mac == "":
		s.chain(w)
	default:
		s.again(w, "", err.Message)
	}
}

// fail writes the error of a call: 401 for an unknown token, 410 for a token whose session
// has ended.
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

// token returns the bearer token of a request. If there is none, it responds with 401.
func token(w http.ResponseWriter, r *http.Request) (string, bool) {
	t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if t = strings.TrimSpace(t); !ok || t == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
		httpjson.Write(w, http.StatusUnauthorized, failure{
			"the install token is missing: send Authorization: Bearer with the value of holdfast.token=",
		})
		return "", false
	}
	return t, true
}

// logPart accepts a part of the installer's log. The body is text, and ?offset= is its
// position.
func (a *api) logPart(w http.ResponseWriter, r *http.Request) {
	t, ok := token(w, r)
	if !ok {
		return
	}
	var offset int64
	if text := r.URL.Query().Get("offset"); text != "" {
		var err error
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil || offset < 0 {
			message := "offset: want a whole number from 0 up, not " + strconv.Quote(text)
			httpjson.Write(w, http.StatusUnprocessableEntity, failure{message})
			return
		}
	}
	data, err := io.ReadAll(r.Body)
	switch {
	case auth.TooLarge(err):
		message := "the body has more than " + strconv.Itoa(auth.MaxBody) + " bytes: send it in parts"
		httpjson.Write(w, http.StatusRequestEntityTooLarge, failure{message})
		return
	case err != nil:
		httpjson.Write(w, http.StatusBadRequest, failure{"the body is incomplete"})
		return
	}
	req := &holdfastv1.AppendInstallLogRequest{Token: t, Offset: offset, Data: data, Caller: a.callerOf(r)}
	resp, err := a.rpc.AppendInstallLog(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, map[string]int64{"next": resp.GetNext()})
}
