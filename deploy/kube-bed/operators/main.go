// Command operators runs one of the operators whose kinds become jobs: -operator says which.
//
// The controllers are the operators' own. Their commands are not used: those of the Training
// Operator and of KubeRay do not compile with the controller-runtime of Kueue, for their webhooks;
// that of the MPI operator answers at port 8080 of all addresses, so that two beds could not have
// it; that of the Trainer has one folder for the keys of all its webhooks.
package main

import (
	"flag"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const host = "127.0.0.1"

var (
	health = flag.String("health-probe-bind-address", "", "address that answers /readyz")
	// Of the Trainer, whose webhooks complete a TrainJob.
	webhookPort = flag.Int("webhook-port", 0, "port of the webhooks")
	certDir     = flag.String("webhook-cert-dir", "", "folder with tls.crt and tls.key")
	// Of the Training Operator, as its own flag --pytorch-init-container-template-file.
	initContainers = flag.String("init-container-template", "", "file with what workers run first")
)

func main() {
	operator := flag.String("operator", "", "training, mpi, trainer or ray")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	run, known := map[string]func(){
		"training": runTraining, "mpi": runMPI, "trainer": runTrainer, "ray": runRay,
	}[*operator]
	if !known {
		log.Fatalf("-operator is %q and must be training, mpi, trainer or ray", *operator)
	}
	run()
}

// newManager returns a manager of these kinds, which says at /readyz that it runs.
func newManager(options ctrl.Options, kinds ...func(*runtime.Scheme) error) ctrl.Manager {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	for _, add := range kinds {
		utilruntime.Must(add(scheme))
	}
	options.Scheme = scheme
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.HealthProbeBindAddress = *health
	client := ctrl.GetConfigOrDie()
	client.QPS, client.Burst = 300, 500
	manager, err := ctrl.NewManager(client, options)
	must(err)
	must(manager.AddReadyzCheck("readyz", healthz.Ping))
	return manager
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
