package client

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// rule is how often a request may be sent. Only this file decides it.
type rule int

const (
	// once: must not be repeated if its outcome is unknown.
	once rule = iota
	// again: may be repeated. Two calls in sequence have the same effect and response as
	// one.
	again
	// hedged: may go to another peer while the first still handles it. An overtaken try can
	// be applied at any later time: a stopped process resumes with the data in its sockets.
	// So it must not undo anything that came after it.
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
		return hedged // the id identifies the second one as a repetition
	}
	switch r := req.(type) {
	case *holdfastv1.CancelRunRequest,
		*holdfastv1.RevokeTokenRequest:
		return hedged // neither can be undone
	case *holdfastv1.UpdateServiceStateRequest:
		if r.GetState().GetTimestamp() != nil {
			return hedged // the timestamp identifies the second one as a repetition
		}
	case *holdfastv1.RegisterMachineRequest:
		// Without an id, each try would create another machine.
		return againIf(r.GetMachine().GetMachineId() != "")
	case *holdfastv1.UpdateMachineRequest,
		*holdfastv1.SetMachinePhaseRequest,
		*holdfastv1.RetryBmcRequest,
		*holdfastv1.CreatePlanRequest,
		*holdfastv1.ProbePlanRequest, // it only reads
		*holdfastv1.AddImageRequest,
		*holdfastv1.PutSecretRequest, // one more version, with the same values
		*holdfastv1.PutWebhookRequest,
		*holdfastv1.RotateSecretsRequest,
		*holdfastv1.StageSnapshotRequest, // a chunk that is already there is left alone
		*holdfastv1.GetAutopilotRequest,
		*holdfastv1.SetAutopilotRequest,
		*holdfastv1.ResetClockRequest, // the time is then some seconds old
		*holdfastv1.RegisterAgentRequest,
		*holdfastv1.UpdateNodeRequest,
		*holdfastv1.CreatePoolRequest,
		*holdfastv1.RegisterPoolRequest,
		*holdfastv1.DeregisterPoolRequest,
		*holdfastv1.RegisterProviderRequest,
		*holdfastv1.DeregisterServiceRequest:
		return again
	case *holdfastv1.ReportNodeRequest:
		return againIf(r.GetInstallationStatus() != "failed") // failures are counted
	case *holdfastv1.RegisterServiceRequest:
		return againIf(r.GetTarget().GetId() != "") // without an id, each try would create another service
	}
	// Deletes are left out: the second response would be NOT_FOUND.
	return once
}

func againIf(may bool) rule {
	if may {
		return again
	}
	return once
}

// isRead reports whether the proto declares the method NO_SIDE_EFFECTS.
func isRead(method string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	opts, ok := d.Options().(*descriptorpb.MethodOptions)
	return ok && opts.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// onlyReads reports whether a request changes nothing. Some reads are not declared as such
// in the proto, because any peer could then answer them, and these need the leader.
func onlyReads(method string, req any) bool {
	switch req.(type) {
	case *holdfastv1.ProbePlanRequest,
		*holdfastv1.GetAutopilotRequest:
		return true
	}
	return isRead(method)
}

// takesLong reports whether a healthy peer may need longer than a try's timeout. Another
// peer would only start over.
func takesLong(req any) bool {
	_, probes := req.(*holdfastv1.ProbePlanRequest) // it waits for BMCs and hosts
	return probes
}

// advice returns the remedy for a request whose outcome is unknown.
func advice(method string) string {
	switch method[strings.LastIndexByte(method, '/')+1:] {
	case "StartRun":
		return "list the machine's runs before you start another, and pass a request_id next time"
	case "RegisterMachine":
		return "search for the machine by MAC address, BMC or serial before you register it again, " +
			"and pass a machine_id next time"
	case "CreateToken":
		return "list the tokens and revoke the one that was never delivered, then create another"
	case "CreateAgentMachine":
		return "list the machines of the pool and delete the one whose token was never delivered, then create another"
	case "CreateNode":
		return "search for the node by its MAC address: if it exists, it was created"
	case "RestoreSnapshot":
		return "it may still be running: check the audit trail before you repeat it"
	case "DeleteMachine", "DeletePlan", "DeletePool", "DeleteProvider", "DeleteSecret", "DeleteImage", "DeleteWebhook":
		return "read it back: NOT_FOUND means that it was deleted"
	}
	return "read the state back before you repeat it"
}
