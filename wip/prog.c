#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int cmp(const void*a,const void*b){return *(int*)a-*(int*)b;}
static jmp_buf jb;static volatile int n;
static void h(int s){(void)s;int v[64];for(int i=0;i<64;i++)v[i]=rand();qsort(v,64,4,cmp);n+=v[3];}
static int rec(int d){char b[200];snprintf(b,200,"%d %s",d,"hello");return d?rec(d-1)+strlen(b):(n+=1);}
static void big(void){char b[100*1024];memset(b,n,sizeof b);n+=b[n&1023];}
static void al(int k){char*p=alloca(k);memset(p,1,k);n+=p[k/2];}
int main(void){static char alt[65536];stack_t ss={.ss_sp=alt,.ss_size=sizeof alt};sigaltstack(&ss,0);struct sigaction sa={.sa_handler=h,.sa_flags=SA_ONSTACK};sigaction(SIGUSR1,&sa,0);sa.sa_flags=0;sigaction(SIGUSR2,&sa,0);int v[2000];for(int r=0;r<40;r++){for(int i=0;i<2000;i++)v[i]=rand();qsort(v,2000,4,cmp);if(!setjmp(jb)){rec(10);longjmp(jb,1);}kill(getpid(),SIGUSR1);kill(getpid(),SIGUSR2);big();al(64+r*100);struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);void*p=malloc(r*1000);p=realloc(p,r*5000+1);free(p);fprintf(stderr,"%s",n==12345?"x":"");}return 0;}
