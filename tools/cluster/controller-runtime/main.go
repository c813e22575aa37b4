// Command controller-runtime is the example controller of docs/conformance.md, written as the tutorials of
// controller-runtime teach it: each Greeting becomes a ConfigMap with its text. With the argument webapp it is the
// operator of WebApps that bench.neighbours measures; with instances, an operator of ApplicationInstances that
// `conformance operator` examines.
package main

import (
	"context"
	"os"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Greeting is the kind of the example.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Who string `json:"who,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitempty"`
}

// DeepCopyObject returns a copy, as every kind of a scheme must.
func (g *Greeting) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), g.Status.Conditions...)
	return &out
}

// GreetingList is a list of Greetings.
type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Greeting `json:"items"`
}

// DeepCopyObject returns a copy, as every kind of a scheme must.
func (l *GreetingList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Greeting, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Greeting)
	}
	return &out
}

type reconciler struct {
	client.Client
}

// Reconcile writes the ConfigMap of a Greeting, then its condition Ready.
func (r reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var greeting Greeting
	if err := r.Get(ctx, request.NamespacedName, &greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text := core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: greeting.Name, Namespace: greeting.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, &text, func() error {
		text.Data = map[string]string{"text": "Hello " + greeting.Spec.Who}
		return controllerutil.SetControllerReference(&greeting, &text, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	changed := meta.SetStatusCondition(&greeting.Status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "Greeted",
		Message:            text.Data["text"],
		ObservedGeneration: greeting.Generation,
	})
	if !changed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, &greeting)
}

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		klog.ErrorS(err, "the controller ended")
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	builders := runtime.NewSchemeBuilder(core.AddToScheme, apps.AddToScheme, networking.AddToScheme)
	if err := builders.AddToScheme(scheme); err != nil {
		return err
	}
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Greeting{}, &GreetingList{}, &WebApp{}, &WebAppList{})
	metav1.AddToGroupVersion(scheme, version)
	scheme.AddKnownTypes(instances, &ApplicationInstance{}, &ApplicationInstanceList{})
	metav1.AddToGroupVersion(scheme, instances)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	owning := owningGreetings
	if slices.Contains(os.Args[1:], "webapp") {
		owning = owningWebApps
	} else if slices.Contains(os.Args[1:], "instances") {
		owning = owningInstances
	}
	if err := owning(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func owningGreetings(mgr ctrl.Manager) error {
	owning := ctrl.NewControllerManagedBy(mgr).For(&Greeting{}).Owns(&core.ConfigMap{})
	return owning.Complete(reconciler{mgr.GetClient()})
}
