package main

import (
	"log"
	"net/http"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	"github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	informers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
)

// runMPI runs the MPI operator's controller. It has no webhooks.
func runMPI() {
	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = 300, 500
	ctx := ctrl.SetupSignalHandler()
	// For the events that it writes about MPIJobs.
	must(scheme.AddToScheme(clientgoscheme.Scheme))
	kube, jobs := kubernetes.NewForConfigOrDie(config), clientset.NewForConfigOrDie(config)
	of := kubeinformers.NewSharedInformerFactory(kube, 0)
	ofJobs := informers.NewSharedInformerFactory(jobs, 0)
	made, err := controller.NewMPIJobController(ctx, kube, jobs, nil, nil,
		of.Core().V1().ConfigMaps(), of.Core().V1().Secrets(), of.Core().V1().Services(),
		of.Batch().V1().Jobs(), of.Core().V1().Pods(), of.Scheduling().V1().PriorityClasses(),
		ofJobs.Kubeflow().V2beta1().MPIJobs(),
		&options.ServerOption{ControllerRateLimit: 100, ControllerBurst: 1000})
	must(err)
	of.Start(ctx.Done())
	ofJobs.Start(ctx.Done())
	go func() {
		ready := func(http.ResponseWriter, *http.Request) {}
		log.Fatal(http.ListenAndServe(*health, http.HandlerFunc(ready)))
	}()
	must(made.Run(2, ctx.Done()))
}
