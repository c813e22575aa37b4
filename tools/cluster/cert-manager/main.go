// Command cert-manager runs the controllers of cert-manager that issue certificates of self-signed and CA issuers, and
// its CA injector, from the library packages: the project's own commands are modules without a published version.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	admission "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	aggregation "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const workers = 5

func main() {
	probes := flag.String("health-probe-bind-address", "127.0.0.1:8081", "the address of the probes")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), os.Getenv("KUBECONFIG"), *probes); err != nil {
		klog.ErrorS(err, "cert-manager ended")
		os.Exit(1)
	}
}

// run starts the manager of the CA injector, with the certificate controllers as one of its runnables.
func run(ctx context.Context, kubeconfig, probes string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig,
		IssuerOptions: controller.IssuerOptions{
			ClusterResourceNamespace: "cert-manager",
		},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	mgr, err := newManager(shared, probes)
	if err != nil {
		return err
	}
	enabled := map[string]bool{
		cainjector.MutatingWebhookConfigurationName:   true,
		cainjector.ValidatingWebhookConfigurationName: true,
		cainjector.CustomResourceDefinitionName:       true,
	}
	options := cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: enabled}
	if err := cainjector.RegisterAllInjectors(ctx, mgr, options); err != nil {
		return err
	}
	certificates := manager.RunnableFunc(func(ctx context.Context) error { return issue(ctx, factory, shared) })
	if err := mgr.Add(certificates); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(shared *controller.Context, probes string) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admission.AddToScheme, aggregation.AddToScheme, certmanager.AddToScheme, core.AddToScheme, extensions.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(shared.RESTConfig, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: probes,
		Metrics:                server.Options{BindAddress: "0"},
		// The injector caches the metadata of Secrets only.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&core.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

// issue runs every controller whose package is imported until the context ends.
func issue(ctx context.Context, factory *controller.ContextFactory, shared *controller.Context) error {
	ended := make(chan error)
	running := 0
	for _, build := range controller.Known() {
		certificates, err := build(factory)
		if err != nil {
			return err
		}
		running++
		go func() { ended <- certificates.Run(workers, ctx) }()
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	var failure error
	for range running {
		if err := <-ended; err != nil {
			failure = err
		}
	}
	return failure
}
