package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "apps.vworkspace.io/finalizer"

var (
	instances = schema.GroupVersion{Group: "apps.vworkspace.io", Version: "v1alpha1"}
	sources   = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "OCIRepository"}
	releases  = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}
)

// ApplicationInstance is the kind of the API, with as much of its status as the reconciler writes.
type ApplicationInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   map[string]any `json:"spec,omitempty"`
	Status InstanceStatus `json:"status,omitempty"`
}

// InstanceStatus is the status of an ApplicationInstance.
type InstanceStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	HelmReleaseRef     *Reference         `json:"helmReleaseRef,omitempty"`
}

// Reference names an object.
type Reference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// DeepCopyObject returns a copy, as every kind of a scheme must.
func (i *ApplicationInstance) DeepCopyObject() runtime.Object {
	out := *i
	i.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = runtime.DeepCopyJSON(i.Spec)
	out.Status.Conditions = append([]metav1.Condition(nil), i.Status.Conditions...)
	return &out
}

// ApplicationInstanceList is a list of ApplicationInstances.
type ApplicationInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ApplicationInstance `json:"items"`
}

// DeepCopyObject returns a copy, as every kind of a scheme must.
func (l *ApplicationInstanceList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]ApplicationInstance, len(l.Items))
	for n := range l.Items {
		out.Items[n] = *l.Items[n].DeepCopyObject().(*ApplicationInstance)
	}
	return &out
}

type applicationInstances struct {
	client.Client
}

func owningInstances(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&ApplicationInstance{}).
		Owns(blank(sources, "", "")).Owns(blank(releases, "", "")).
		Complete(applicationInstances{mgr.GetClient()})
}

func blank(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// Reconcile makes a source and a HelmRelease of an instance, and reports the release's condition Ready as its own.
func (r applicationInstances) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var instance ApplicationInstance
	if err := r.Get(ctx, request.NamespacedName, &instance); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name, _, _ := unstructured.NestedString(instance.Spec, "release", "name")
	if !instance.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.remove(ctx, &instance, name)
	}
	if controllerutil.AddFinalizer(&instance, finalizer) {
		return ctrl.Result{}, r.Update(ctx, &instance) // the update brings the next event
	}
	release, err := r.children(ctx, &instance, name)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &instance, release)
}

// remove deletes the release, and gives the finalizer up when Flux has uninstalled it.
func (r applicationInstances) remove(ctx context.Context, instance *ApplicationInstance, name string) error {
	release := blank(releases, instance.Namespace, name)
	if err := r.Delete(ctx, release); err == nil || client.IgnoreNotFound(err) != nil {
		return err
	}
	if controllerutil.RemoveFinalizer(instance, finalizer) {
		return r.Update(ctx, instance)
	}
	return nil
}

func (r applicationInstances) children(
	ctx context.Context, instance *ApplicationInstance, name string,
) (*unstructured.Unstructured, error) {
	chart, _, _ := unstructured.NestedStringMap(instance.Spec, "chart")
	values, _, _ := unstructured.NestedMap(instance.Spec, "values", "inline")
	source := blank(sources, instance.Namespace, name)
	err := r.have(ctx, instance, source, map[string]any{
		"interval": "5m",
		"url":      fmt.Sprintf("%s/%s", strings.TrimRight(chart["url"], "/"), chart["name"]),
		"ref":      map[string]any{"tag": chart["version"]},
		"layerSelector": map[string]any{
			"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
			"operation": "copy",
		},
	})
	if err != nil {
		return nil, err
	}
	release := blank(releases, instance.Namespace, name)
	return release, r.have(ctx, instance, release, map[string]any{
		"interval":    "5m",
		"chartRef":    map[string]any{"kind": sources.Kind, "name": name},
		"releaseName": name,
		"values":      values,
	})
}

// have creates a child, or updates it if one of the fields differs.
func (r applicationInstances) have(
	ctx context.Context, instance *ApplicationInstance, child *unstructured.Unstructured, fields map[string]any,
) error {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		for key, value := range fields {
			if err := unstructured.SetNestedField(child.Object, value, "spec", key); err != nil {
				return err
			}
		}
		return controllerutil.SetControllerReference(instance, child, r.Scheme())
	})
	return err
}

func (r applicationInstances) report(
	ctx context.Context, instance *ApplicationInstance, release *unstructured.Unstructured,
) error {
	before := instance.DeepCopyObject().(*ApplicationInstance).Status
	ready, message := readiness(release)
	state, reason, activity := metav1.ConditionFalse, "Installing", "HelmReleaseInstalling"
	if ready {
		state, reason, activity = metav1.ConditionTrue, "HelmReleaseReady", "Stable"
	}
	busy := map[bool]metav1.ConditionStatus{true: metav1.ConditionFalse, false: metav1.ConditionTrue}[ready]
	for _, condition := range []metav1.Condition{
		{Type: "Ready", Status: state, Reason: reason, Message: message},
		{Type: "Reconciling", Status: busy, Reason: activity, Message: message},
	} {
		condition.ObservedGeneration = instance.Generation
		meta.SetStatusCondition(&instance.Status.Conditions, condition)
	}
	instance.Status.ObservedGeneration = instance.Generation
	instance.Status.HelmReleaseRef = &Reference{Name: release.GetName(), Namespace: release.GetNamespace()}
	if equality.Semantic.DeepEqual(before, instance.Status) {
		return nil
	}
	return r.Status().Update(ctx, instance)
}

// readiness returns whether a release is Ready at its generation, and its message.
func readiness(release *unstructured.Unstructured) (bool, string) {
	observed, _, _ := unstructured.NestedInt64(release.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(release.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == "Ready" {
			message, _ := condition["message"].(string)
			return condition["status"] == "True" && observed == release.GetGeneration(), message
		}
	}
	return false, ""
}
