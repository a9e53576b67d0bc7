#include <elf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include "unwind/cfi.h"
#include "unwind/table_builder.h"
#include "unwind/walk.h"
struct obj{char path[512];struct stackbeat_unwind_view view;int ok;uint64_t vaddr_bias;};
static struct walk_mapping maps[512];static int nmaps;static char names[512][512];static pid_t pid;
static int fn(void*a,uint64_t s,uint64_t e,const struct cfi_row*r){return table_builder_add(a,s,e,r);}
static struct stackbeat_unwind_view*compile(const char*b,size_t size){(void)size;const Elf64_Ehdr*h=(void*)b;const Elf64_Shdr*s=(void*)(b+h->e_shoff);for(int i=0;i<h->e_shnum;i++){const char*n=b+s[h->e_shstrndx].sh_offset+s[i].sh_name;if(strcmp(n,".eh_frame"))continue;struct cfi_section sec={b+s[i].sh_offset,s[i].sh_size,s[i].sh_addr,true};struct cfi_counts k;struct table_builder*t=table_builder_new();cfi_read(&sec,fn,t,&k);struct stackbeat_unwind_table*tab;struct table_counts tc;if(table_builder_finish(t,&tab,&tc))return 0;if(!stackbeat_unwind_check(tab,tab->size)){fprintf(stderr,"table refused\n");exit(1);}struct stackbeat_unwind_view*v=malloc(sizeof*v);stackbeat_unwind_open(tab,v);return v;}return 0;}
static void load(void){char p[64],line[1024];snprintf(p,64,"/proc/%d/maps",pid);FILE*f=fopen(p,"r");nmaps=0;static char cp[64][512];static struct stackbeat_unwind_view*cv[64];static char*cb[64];static int nc;while(fgets(line,1024,f)){uint64_t a,b,off;char perm[8],path[512]="";sscanf(line,"%lx-%lx %7s %lx %*s %*s %511s",&a,&b,perm,&off,path);if(perm[2]!='x'||!*path)continue;int i;for(i=0;i<nc;i++)if(!strcmp(cp[i],path))break;if(i==nc){strcpy(cp[i],path);cv[i]=0;if(path[0]=='/'){int fd=open(path,O_RDONLY);struct stat st;fstat(fd,&st);cb[i]=mmap(0,st.st_size,PROT_READ,MAP_PRIVATE,fd,0);close(fd);cv[i]=compile(cb[i],st.st_size);}else if(!strcmp(path,"[vdso]")){char*m=malloc(b-a);struct iovec l={m,b-a},r={(void*)a,b-a};process_vm_readv(pid,&l,1,&r,1,0);cb[i]=m;cv[i]=compile(m,b-a);}nc++;}
 if(!cb[i])continue;const Elf64_Ehdr*h=(void*)cb[i];const Elf64_Phdr*ph=(void*)(cb[i]+h->e_phoff);uint64_t bias=0;for(int j=0;j<h->e_phnum;j++)if(ph[j].p_type==PT_LOAD&&off>=(ph[j].p_offset&~0xfffull)&&off<ph[j].p_offset+ph[j].p_filesz)bias=a-off-(ph[j].p_vaddr-ph[j].p_offset);maps[nmaps]=(struct walk_mapping){a,b,bias,cv[i]};strcpy(names[nmaps],path);nmaps++;}fclose(f);}
static const struct walk_mapping*find(void*x,uint64_t a){(void)x;for(int i=0;i<nmaps;i++)if(a>=maps[i].start&&a<maps[i].end)return &maps[i];return 0;}
static bool rd(void*x,uint64_t a,uint64_t*w){(void)x;struct iovec l={w,8},r={(void*)a,8};return process_vm_readv(pid,&l,1,&r,1,0)==8;}
static uint64_t truth[1024];static size_t nt;
static int frame(Dwfl_Frame*f,void*a){(void)a;Dwarf_Addr pc;bool act;if(!dwfl_frame_pc(f,&pc,&act))return DWARF_CB_ABORT;if(nt<1024)truth[nt++]=pc;return DWARF_CB_OK;}
static const Dwfl_Callbacks cbs={.find_elf=dwfl_linux_proc_find_elf,.find_debuginfo=dwfl_standard_find_debuginfo};
int main(int c,char**v){long skip=atol(v[1]),every=atol(v[2]),n=atol(v[3]);(void)c;pid=fork();if(!pid){ptrace(PTRACE_TRACEME,0,0,0);execv(v[4],v+4);_exit(1);}int st;waitpid(pid,&st,0);long same=0,diff=0,steps=0,shown=0,prefix=0;Dwfl*d=0;srand(1);long next=skip;int lastmaps=0;
 while(same+diff<n){ptrace(PTRACE_SINGLESTEP,pid,0,0);waitpid(pid,&st,0);if(WIFEXITED(st)||WIFSIGNALED(st))break;int sig=WSTOPSIG(st);if(sig!=SIGTRAP){ptrace(PTRACE_SINGLESTEP,pid,0,sig);waitpid(pid,&st,0);if(WIFEXITED(st))break;}
  if(++steps<next)continue;next+=1+rand()%(2*every);
  load();if(!d||nmaps!=lastmaps){if(d)dwfl_end(d);d=dwfl_begin(&cbs);dwfl_linux_proc_report(d,pid);dwfl_report_end(d,0,0);dwfl_linux_proc_attach(d,pid,true);lastmaps=nmaps;}
  nt=0;dwfl_getthread_frames(d,pid,frame,0);
  struct user_regs_struct r;ptrace(PTRACE_GETREGS,pid,0,&r);struct walk w={.registers={r.rax,r.rdx,r.rcx,r.rbx,r.rsi,r.rdi,r.rbp,r.rsp,r.r8,r.r9,r.r10,r.r11,r.r12,r.r13,r.r14,r.r15,r.rip},.mapping=find,.read=rd};
  uint64_t a[1024];enum walk_end e;size_t k=walk_stack(&w,a,1024,&e);
  int eq=k==nt&&!memcmp(a,truth,8*k);
  if(eq&&e==WALK_OUTERMOST)same++;else{diff++;if(k>nt&&!memcmp(a,truth,8*nt))prefix++;if(shown++<15){printf("step %ld end %d ours %zu truth %zu: ",steps,e,k,nt);for(size_t i=0;i<k||i<nt;i++){uint64_t x=i<k?a[i]:0,y=i<nt?truth[i]:0;const struct walk_mapping*m=find(0,x?x:y);printf(" %lx%s%lx(%s+%lx)",x,x==y?"=":"!",y,m?strrchr(names[m-maps],'/')?strrchr(names[m-maps],'/')+1:names[m-maps]:"?",m?(x?x:y)-m->bias:0);if(x!=y)break;}puts("");}}}
 printf("%s: same %ld diff %ld (ours longer, same prefix %ld) steps %ld\n",v[4],same,diff,prefix,steps);kill(pid,9);}
