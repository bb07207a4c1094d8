package client

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// rule says how often a request may be sent. It is decided here and nowhere else.
type rule int

const (
	// once: never again when nobody knows whether it was applied.
	once rule = iota
	// again: twice, one after the other, is the same as once, for the state and for the answer.
	again
	// hedged: it may go to another peer while the first one is still at work on it. A try that was
	// overtaken can be applied at any time later (a stopped process goes on with what lies in its
	// sockets), so nothing that came after must be undone by it.
	hedged
)

// ruleOf returns the rule of a request.
func ruleOf(method string, req any) rule {
	if isRead(method) {
		return hedged
	}
	if r, ok := req.(interface{ GetRequestId() string }); ok {
		if r.GetRequestId() == "" {
			return once
		}
		return hedged // by its id the second one is known to be the first
	}
	switch r := req.(type) {
	case *holdfastv1.CancelRunRequest,
		*holdfastv1.RevokeTokenRequest:
		return hedged // there is no way back from either
	case *holdfastv1.UpdateServiceStateRequest:
		if r.GetState().GetTimestamp() != nil {
			return hedged // by its time the second one is known to be the first
		}
	case *holdfastv1.RegisterMachineRequest:
		// Without an id each try would make another machine.
		return againIf(r.GetMachine().GetMachineId() != "")
	case *holdfastv1.UpdateMachineRequest,
		*holdfastv1.SetMachinePhaseRequest,
		*holdfastv1.RetryBmcRequest,
		*holdfastv1.CreatePlanRequest,
		*holdfastv1.ProbePlanRequest, // it only reads
		*holdfastv1.AddImageRequest,
		*holdfastv1.PutSecretRequest, // one version more, with the same values
		*holdfastv1.PutWebhookRequest,
		*holdfastv1.RotateSecretsRequest,
		*holdfastv1.StageSnapshotRequest, // a chunk that is there already is left as it is
		*holdfastv1.GetAutopilotRequest,
		*holdfastv1.SetAutopilotRequest,
		*holdfastv1.ResetClockRequest, // the time is some seconds old then
		*holdfastv1.RegisterAgentRequest,
		*holdfastv1.UpdateNodeRequest,
		*holdfastv1.CreatePoolRequest,
		*holdfastv1.RegisterPoolRequest,
		*holdfastv1.DeregisterPoolRequest,
		*holdfastv1.RegisterProviderRequest,
		*holdfastv1.DeregisterServiceRequest:
		return again
	case *holdfastv1.ReportNodeRequest:
		return againIf(r.GetInstallationStatus() != "failed") // those are counted
	case *holdfastv1.RegisterServiceRequest:
		return againIf(r.GetTarget().GetId() != "") // without one each try would make another service
	}
	// A delete is not here: its second answer would be NOT_FOUND.
	return once
}

func againIf(may bool) rule {
	if may {
		return again
	}
	return once
}

// isRead takes it from the proto: idempotency_level = NO_SIDE_EFFECTS.
func isRead(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	opts, ok := d.Options().(*descriptorpb.MethodOptions)
	return ok && opts.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// onlyReads tells that a request changes nothing. Some that only the leader can answer do not have
// the mark of reads, by which any peer would.
func onlyReads(method string, req any) bool {
	switch req.(type) {
	case *holdfastv1.ProbePlanRequest,
		*holdfastv1.GetAutopilotRequest:
		return true
	}
	return isRead(method)
}

// takesLong tells that a peer which is well may need longer for a request than a try has: another
// peer would only begin anew.
func takesLong(req any) bool {
	_, probes := req.(*holdfastv1.ProbePlanRequest) // it waits for BMCs and hosts
	return probes
}

// advice is what a caller does about a request whose outcome is unknown.
func advice(method string) string {
	switch method[strings.LastIndexByte(method, '/')+1:] {
	case "StartRun":
		return "list the machine's runs before you start another, and give a request_id next time"
	case "RegisterMachine":
		return "look the machine up by MAC address, BMC or serial before you register it again, and bring a machine_id next time"
	case "CreateToken":
		return "list the tokens and revoke the one that nobody has got, then make another one"
	case "CreateAgentMachine":
		return "list the machines of the pool and delete the one that nobody has got the token of, then make another one"
	case "CreateNode":
		return "look the node up by its MAC address: if it is there, it was created"
	case "RestoreSnapshot":
		return "it may be going on without its caller: see in the audit trail whether it was done before you repeat it"
	case "DeleteMachine", "DeletePlan", "DeletePool", "DeleteProvider", "DeleteSecret", "DeleteImage", "DeleteWebhook":
		return "read it back: NOT_FOUND says that it was deleted"
	}
	return "read the state back before you repeat it"
}
