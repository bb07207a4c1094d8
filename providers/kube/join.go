package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-metal/holdfast/providers"
)

// joinTime is the timeout of kubeadm, enforced by the host. The token is valid for as long.
const joinTime = TokenTTL

// controlPlaneLabel is on the node of each control plane.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// script is a prepared script for a host.
type script struct {
	text string
	made time.Time
}

// scriptAge is how long a prepared script is used: a late start is retried at once.
const scriptAge = time.Minute

// JoinsRegistered returns true: a join needs a cluster that Clusters finds.
func (j *Joiner) JoinsRegistered() bool { return true }

// StartJoin creates a token for the attempt and starts kubeadm with it on the host. If kubeadm was
// started before, it does nothing.
func (j *Joiner) StartJoin(ctx context.Context, op providers.Op, m providers.Machine, s providers.JoinSpec) error {
	what := fmt.Sprintf("join %s to %s", m.GetMachineId(), s.ClusterRef)
	attempt := op.Token()
	text, err := j.prepared(ctx, attempt, m, s)
	if err != nil {
		return classify(what, err)
	}
	if ctx, err = providers.Confirmed(ctx, what); err != nil {
		return err
	}
	// A command that has begun must not begin with another token: only the first one is revoked
	// by its name.
	c := providers.Command{Script: text, Timeout: joinTime}
	if err := j.host.StartCommand(ctx, op, m, attempt, c); err != nil {
		return err
	}
	j.forget(attempt)
	return nil
}

// prepared returns the script of a join, with a valid token.
func (j *Joiner) prepared(
	ctx context.Context, attempt string, m providers.Machine, s providers.JoinSpec,
) (string, error) {
	j.mu.Lock()
	ready, ok := j.scripts[attempt]
	j.mu.Unlock()
	if ok && time.Since(ready.made) < scriptAge {
		return ready.text, nil
	}
	a, err := j.api(ctx, m, s.ClusterRef)
	if err != nil {
		return "", err
	}
	c, err := a.joining(providers.Unhurried(ctx), m, s)
	if err != nil {
		return "", err
	}
	if ctx, err = providers.Confirmed(ctx, "create a token to join "+s.ClusterRef); err != nil {
		return "", err
	}
	if c.Token, err = a.mint(ctx, attempt); err != nil {
		return "", err
	}
	text, err := c.script()
	if err != nil {
		return "", err
	}
	j.keep(attempt, text)
	return text, nil
}

// keep stores the script of an attempt, and drops those that were not started in time: another
// leader may have started their attempts, and they hold tokens.
func (j *Joiner) keep(attempt, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.scripts, func(_ string, s script) bool { return time.Since(s.made) >= scriptAge })
	j.scripts[attempt] = script{text, time.Now()}
}

func (j *Joiner) forget(attempt string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.scripts, attempt)
}

// joining returns the parameters of a join except for its token, or an error if it cannot succeed.
func (a *api) joining(ctx context.Context, m providers.Machine, s providers.JoinSpec) (*joining, error) {
	op := fmt.Sprintf("join %s to %s", m.GetMachineId(), s.ClusterRef)
	names := NodeNames(m)
	if len(names) == 0 {
		return nil, providers.Errorf(providers.Unsupported, op, "neither its host name nor its id is a "+
			"valid node name: want lower case letters, digits, '-' and '.'")
	}
	n, other, err := a.node(ctx, m)
	if err != nil {
		return nil, err
	}
	if other != "" {
		return nil, providers.Errorf(providers.Unsupported, op,
			"%s: give the host another name, or delete that node if it is gone permanently", other)
	}
	c := &joining{Node: names[0], ProviderID: providerScheme + m.GetMachineId(), Cluster: s.ClusterRef}
	if n != nil {
		c.Node, c.Known = n.Name, true
		if n.Spec.ProviderID != "" {
			c.ProviderID = n.Spec.ProviderID // immutable
		}
	}
	if c.Server, c.Hashes, err = a.discovery(ctx); err != nil {
		return nil, err
	}
	switch s.Role {
	case "", "worker":
	case "control-plane":
		if c.CertificateKey, err = a.certificateKey(ctx, op); err != nil {
			return nil, err
		}
		if n != nil {
			_, c.Known = n.Labels[controlPlaneLabel] // the last thing that kubeadm sets
		}
	default:
		return nil, providers.Errorf(providers.Unsupported, op, "its role is %q: want worker or control-plane", s.Role)
	}
	return c, nil
}

// certificateKey returns the key of the control planes' shared certificates, if those are uploaded.
func (a *api) certificateKey(ctx context.Context, op string) (string, error) {
	const again = "run kubeadm init phase upload-certs --upload-certs on a control plane, and register " +
		"the cluster again with its key (holdfast cluster-ref add --certificate-key-file)"
	if a.certKey == "" {
		return "", providers.Errorf(providers.Unsupported, op,
			"cluster %s was registered without a certificate key, which control planes need: %s", a.ref, again)
	}
	err := a.client.Get().Namespace(system).Resource("secrets").Name("kubeadm-certs").Do(ctx).Into(&corev1.Secret{})
	if apierrors.IsNotFound(err) {
		return "", providers.Errorf(providers.Unsupported, op,
			"cluster %s has no uploaded certificates (secret kubeadm-certs, which lasts two hours): %s",
			a.ref, again)
	}
	return a.certKey, err
}

// JoinStatus returns the state of the join that the attempt has started.
func (j *Joiner) JoinStatus(
	ctx context.Context, m providers.Machine, token string,
) (providers.WorkState, string, error) {
	st, err := j.host.CommandStatus(ctx, m, token, 0)
	if err != nil {
		return "", "", err
	}
	switch {
	case st.State == providers.WorkDone && st.ExitCode != 0:
		return providers.WorkFailed, fmt.Sprintf("kubeadm exited with %d: %s", st.ExitCode, said(st.Output)), nil
	case st.State == providers.WorkFailed && st.Reason != "":
		return providers.WorkFailed, clip(st.Reason), nil
	case st.State == providers.WorkFailed:
		return providers.WorkFailed, "kubeadm was killed on the host", nil
	}
	return st.State, "", nil
}

// said returns the end of a command's stderr, or of its stdout if stderr is empty.
func said(output []providers.Output) string {
	streams := map[string]string{}
	for _, o := range output {
		streams[o.Stream] += string(o.Data)
	}
	if text := tail(streams["stderr"]); text != "" {
		return text
	}
	return tail(streams["stdout"])
}

// EndJoin revokes the attempt's token, and kills its command if that is still running. It may be
// called again.
func (j *Joiner) EndJoin(ctx context.Context, op providers.Op, m providers.Machine, s providers.JoinSpec) error {
	attempt := op.Token()
	j.forget(attempt)
	what := fmt.Sprintf("revoke the token that %s joins %s with", m.GetMachineId(), s.ClusterRef)
	if err := providers.InTime(ctx, what); err != nil {
		return err
	}
	a, err := j.api(ctx, m, s.ClusterRef)
	if err == nil {
		err = classify(what, a.revoke(ctx, attempt))
	}
	if providers.ClassOf(err) == providers.Late {
		return err
	}
	st, statusErr := j.host.CommandStatus(ctx, m, attempt, 0)
	if statusErr == nil && st.State == providers.WorkRunning {
		statusErr = j.host.KillCommand(ctx, op, m, attempt)
	}
	return errors.Join(err, statusErr)
}
