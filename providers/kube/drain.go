package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-metal/holdfast/providers"
)

// Cordon makes the machine's node unschedulable, or schedulable again. If the machine has no node,
// the error has class Unsupported.
func (j *Joiner) Cordon(ctx context.Context, _ providers.Op, m providers.Machine, ref string, on bool) error {
	op := fmt.Sprintf("cordon the node of %s in %s", m.GetMachineId(), ref)
	if !on {
		op = "un" + op
	}
	a, n, err := j.nodeOf(providers.Unhurried(ctx), op, m, ref)
	if err != nil {
		return err
	}
	if n == nil {
		return providers.Errorf(providers.Unsupported, op, "cluster %s has no node of the machine", ref)
	}
	if n.Spec.Unschedulable == on {
		return nil
	}
	if ctx, err = providers.Confirmed(ctx, op); err != nil {
		return err
	}
	// With the UID, the patch fails for another node with the same name.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"unschedulable":%t}}`, n.UID, on)
	err = a.client.Patch(types.StrategicMergePatchType).Resource("nodes").Name(n.Name).
		MaxRetries(0).Body(patch).Do(ctx).Error()
	return classify(op, err)
}

// Evict requests the eviction of each pod that has to leave the machine's node, once, and returns
// the remaining ones. Pods that a disruption budget protects stay, and are listed. Pods of daemon
// sets, mirror pods of the host, and pods that have ended stay as well. If no controller would
// recreate a pod, Evict refuses, unless forced.
func (j *Joiner) Evict(
	ctx context.Context, _ providers.Op, m providers.Machine, ref string, force bool,
) (providers.DrainStatus, error) {
	op := fmt.Sprintf("drain the node of %s in %s", m.GetMachineId(), ref)
	reads := providers.Unhurried(ctx) // in a large cluster they take longer than an effect may wait
	a, n, err := j.nodeOf(reads, op, m, ref)
	if err != nil || n == nil {
		return providers.DrainStatus{}, err
	}
	pods, err := a.pods(reads, n.Name)
	if err != nil {
		return providers.DrainStatus{}, classify(op, err)
	}
	st := providers.DrainStatus{Node: n.Name}
	if lost := orphans(pods); len(lost) > 0 && !force {
		return st, providers.Errorf(providers.Unsupported, op, "no controller would recreate %s: "+
			"delete pods that are not needed, or set the run's parameter force=true", list(lost))
	}
	if ctx, err = providers.Confirmed(ctx, op); err != nil {
		return st, err
	}
	var leaving, blocked, refused []string
	var refusal error // the first of them
	for i := range pods {
		p := &pods[i]
		st.Left++
		if p.DeletionTimestamp != nil {
			leaving = append(leaving, p.Namespace+"/"+p.Name)
			continue
		}
		why, err := a.evict(ctx, p)
		if providers.ClassOf(err) == providers.Late { // the confirmation has expired: get another
			if ctx, err = providers.Confirmed(ctx, op); err == nil {
				why, err = a.evict(ctx, p)
			}
		}
		switch {
		case refusesPod(err):
			refusal = cmp.Or(refusal, err)
			refused = append(refused, fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, clip(err.Error())))
			continue
		case err != nil:
			return st, classify(op, err)
		case why != "":
			blocked = append(blocked, why)
			continue
		}
		leaving = append(leaving, p.Namespace+"/"+p.Name)
	}
	if refusal != nil && len(refused) == st.Left {
		return st, classify(op, refusal) // it does not depend on the pod
	}
	st.Waiting = waiting(n.Name, blocked, leaving, refused)
	return st, nil
}

// refusesPod reports whether the API has answered a request for one pod with an error that says
// nothing about the others.
func refusesPod(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsUnauthorized(err)
}

// namespaceEnds reports whether the API refuses an eviction because the namespace is being deleted,
// and the pod with it.
func namespaceEnds(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func waiting(node string, blocked, leaving, refused []string) string {
	var parts []string
	if len(refused) > 0 {
		parts = append(parts, "the API to evict pods from "+node+", which it refuses: "+list(refused))
	}
	if len(blocked) > 0 {
		parts = append(parts, "disruption budgets to let pods leave "+node+": "+list(blocked))
	}
	if len(leaving) > 0 {
		parts = append(parts, "pods to end on "+node+": "+list(leaving))
	}
	return strings.Join(parts, "; and ")
}

// mostNamed bounds how many pods are named.
const mostNamed = 5

func list(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return clip(strings.Join(names, ", "))
}

// nodeOf returns the machine's node, or nil. If nothing proves that the node is the machine's, the
// error has class Unsupported.
func (j *Joiner) nodeOf(ctx context.Context, op string, m providers.Machine, ref string) (*api, *corev1.Node, error) {
	a, err := j.api(ctx, m, ref)
	if err != nil {
		return nil, nil, err
	}
	n, _, err := a.node(ctx, m)
	if err != nil {
		return a, nil, classify(op, err)
	}
	if n != nil && !owned(m, n) {
		return a, nil, providers.Errorf(providers.Unsupported, op,
			"node %s of cluster %s is not proved to belong to the machine: "+
				"run kubectl annotate node %s %s=%s if it does",
			n.Name, ref, n.Name, machineAnnotation, m.GetMachineId())
	}
	return a, n, nil
}

// pods returns the pods that have to leave a node, ordered by namespace and name.
func (a *api) pods(ctx context.Context, node string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for token := ""; ; {
		var page corev1.PodList
		r := a.client.Get().Resource("pods").Param("fieldSelector", "spec.nodeName="+node).Param("limit", "500")
		if token != "" {
			r.Param("continue", token)
		}
		if err := r.Do(ctx).Into(&page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if leaves(&page.Items[i]) {
				all = append(all, page.Items[i])
			}
		}
		if token = page.Continue; token == "" {
			slices.SortFunc(all, func(a, b corev1.Pod) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			return all, nil
		}
	}
}

// leaves reports whether a pod has to leave in a drain.
func leaves(p *corev1.Pod) bool {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	if o := metav1.GetControllerOf(p); o != nil && o.Kind == "DaemonSet" {
		return false
	}
	return p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// orphans returns the pods that no controller would recreate.
func orphans(pods []corev1.Pod) []string {
	var names []string
	for i := range pods {
		if p := &pods[i]; metav1.GetControllerOf(p) == nil && p.DeletionTimestamp == nil {
			names = append(names, "pod "+p.Namespace+"/"+p.Name)
		}
	}
	return names
}

// evict requests the eviction of one pod. why is the reason if it is forbidden for now, or "".
func (a *api) evict(ctx context.Context, p *corev1.Pod) (why string, err error) {
	e := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))},
	}
	err = a.client.Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").
		MaxRetries(0).Body(e).Do(ctx).Error()
	var status apierrors.APIStatus
	switch {
	case err == nil,
		namespaceEnds(err),
		apierrors.IsNotFound(err),
		apierrors.IsConflict(err): // a new pod of that name
		return "", nil
	case apierrors.IsTooManyRequests(err) && errors.As(err, &status):
		return fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, budget(status.Status())), nil
	case apierrors.IsInternalError(err) && errors.As(err, &status): // e.g. two budgets match the pod
		return fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, status.Status().Message), nil
	}
	return "", err
}

// budget returns the disruption budget that forbids an eviction, in the words of the API.
func budget(s metav1.Status) string {
	var parts []string
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Type == policyv1.DisruptionBudgetCause {
				parts = append(parts, c.Message)
			}
		}
	}
	if len(parts) == 0 {
		return s.Message
	}
	return strings.Join(parts, "; ")
}
