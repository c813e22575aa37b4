package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// WebApp is the kind of bench/webapp.yaml.
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
		Host     string `json:"host,omitempty"`
	} `json:"spec,omitempty"`
	Status WebAppStatus `json:"status,omitempty"`
}

// WebAppStatus is the status of a WebApp.
type WebAppStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	Address            string             `json:"address,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject returns a copy, as every kind of a scheme must.
func (w *WebApp) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), w.Status.Conditions...)
	return &out
}

// WebAppList is a list of WebApps.
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebApp `json:"items"`
}

// DeepCopyObject returns a copy, as every kind of a scheme must.
func (l *WebAppList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]WebApp, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*WebApp)
	}
	return &out
}

type webApps struct {
	client.Client
	// history is the revisionHistoryLimit of Deployments, if the definition has one.
	history *int32
}

func owningWebApps(mgr ctrl.Manager) error {
	reconciler := webApps{Client: mgr.GetClient()}
	if text := os.Getenv("REVISION_HISTORY_LIMIT"); text != "" {
		limit, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return err
		}
		history := int32(limit)
		reconciler.history = &history
	}
	return ctrl.NewControllerManagedBy(mgr).For(&WebApp{}).
		Owns(&core.ServiceAccount{}).Owns(&core.ConfigMap{}).Owns(&apps.Deployment{}).
		Owns(&core.Service{}).Owns(&networking.Ingress{}).Complete(reconciler)
}

// Reconcile writes the children of a WebApp in three phases, then its status if that has changed.
func (r webApps) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var app WebApp
	if err := r.Get(ctx, request.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := app.DeepCopyObject().(*WebApp).Status
	ready, err := r.children(ctx, &app)
	if err != nil {
		return ctrl.Result{}, err
	}
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: app.Generation,
	}
	if ready {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Ready"
	}
	meta.SetStatusCondition(&app.Status.Conditions, condition)
	app.Status.ObservedGeneration = app.Generation
	if equality.Semantic.DeepEqual(before, app.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, &app)
}

// children writes the children that the gates allow, and reports whether all of them are ready.
func (r webApps) children(ctx context.Context, app *WebApp) (bool, error) {
	account := core.ServiceAccount{ObjectMeta: r.named(app, "")}
	if err := r.have(ctx, app, &account, func() {}); err != nil {
		return false, err
	}
	config := core.ConfigMap{ObjectMeta: r.named(app, "-config")}
	err := r.have(ctx, app, &config, func() {
		config.Data = map[string]string{"image": app.Spec.Image, "replicas": strconv.Itoa(int(app.Spec.Replicas))}
	})
	if err != nil {
		return false, err
	}
	deployment := apps.Deployment{ObjectMeta: r.named(app, "")}
	if err := r.have(ctx, app, &deployment, func() { r.fill(&deployment, app, config.Data) }); err != nil {
		return false, err
	}
	app.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	if deployment.Status.ReadyReplicas != app.Spec.Replicas {
		return false, nil
	}
	return r.network(ctx, app)
}

func (r webApps) network(ctx context.Context, app *WebApp) (bool, error) {
	service := core.Service{ObjectMeta: r.named(app, "-svc")}
	err := r.have(ctx, app, &service, func() {
		service.Spec.Type = core.ServiceTypeLoadBalancer
		service.Spec.Selector = map[string]string{"app": app.Name}
		if len(service.Spec.Ports) != 1 {
			service.Spec.Ports = make([]core.ServicePort, 1)
		}
		port := &service.Spec.Ports[0]
		port.Name, port.Port, port.TargetPort, port.Protocol = "http", 80, intstr.FromString("http"), core.ProtocolTCP
	})
	if err != nil || len(service.Status.LoadBalancer.Ingress) == 0 {
		return false, err
	}
	app.Status.Address = service.Status.LoadBalancer.Ingress[0].IP
	ingress := networking.Ingress{ObjectMeta: r.named(app, "-ingress")}
	err = r.have(ctx, app, &ingress, func() { ingress.Spec.Rules = rules(app.Spec.Host, service.Name) })
	return err == nil && len(ingress.Status.LoadBalancer.Ingress) > 0, err
}

// fill sets the fields of the definition in place, so that defaults of the API server are no differences.
func (r webApps) fill(deployment *apps.Deployment, app *WebApp, data map[string]string) {
	labels, spec := map[string]string{"app": app.Name}, &deployment.Spec
	sum := sha256.Sum256([]byte(data["image"] + " " + data["replicas"]))
	spec.Replicas, spec.Selector = &app.Spec.Replicas, &metav1.LabelSelector{MatchLabels: labels}
	spec.Template.Labels = labels
	spec.Template.Annotations = map[string]string{"config": hex.EncodeToString(sum[:])}
	spec.Template.Spec.ServiceAccountName = app.Name
	if len(spec.Template.Spec.Containers) != 1 {
		spec.Template.Spec.Containers = make([]core.Container, 1)
	}
	container := &spec.Template.Spec.Containers[0]
	container.Name, container.Image = "web", app.Spec.Image
	container.Ports = []core.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: core.ProtocolTCP}}
	reference := core.LocalObjectReference{Name: app.Name + "-config"}
	container.EnvFrom = []core.EnvFromSource{{ConfigMapRef: &core.ConfigMapEnvSource{LocalObjectReference: reference}}}
	if r.history != nil {
		spec.RevisionHistoryLimit = r.history
	}
}

func rules(host, service string) []networking.IngressRule {
	prefix := networking.PathTypePrefix
	backend := networking.IngressBackend{Service: &networking.IngressServiceBackend{
		Name: service, Port: networking.ServiceBackendPort{Name: "http"},
	}}
	paths := []networking.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: backend}}
	value := networking.IngressRuleValue{HTTP: &networking.HTTPIngressRuleValue{Paths: paths}}
	return []networking.IngressRule{{Host: host, IngressRuleValue: value}}
}

func (r webApps) named(app *WebApp, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: app.Name + suffix, Namespace: app.Namespace}
}

// have creates a child, or updates it if one of the fields that fill sets differs.
func (r webApps) have(ctx context.Context, app *WebApp, child client.Object, fill func()) error {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		labels := child.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["app"] = app.Name
		child.SetLabels(labels)
		fill()
		return controllerutil.SetControllerReference(app, child, r.Scheme())
	})
	return err
}
